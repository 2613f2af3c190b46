package devbroker_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
)

// A kill between a batch's two writes, to the log and to its index, leaves the
// index one entry short. kfake then takes the batch for one without a
// transaction: what was never committed would be read as committed. Entries
// written later would be taken for those of the batches before.
func TestBroker_RepairsAnIndexThatAKillCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	createTopic(t, client(t, b), topic, 1, nil)
	produce(t, client(t, b), topic, "a0", "a1")
	open := client(t, b, kgo.TransactionalID("boot-1"))
	require.NoError(t, open.BeginTransaction())
	require.NoError(t, open.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("never committed")}).FirstErr())

	dir = crash(t, dir)
	indexes, err := filepath.Glob(filepath.Join(dir, "broker", "partitions", "*", "*.idx"))
	require.NoError(t, err)
	require.Len(t, indexes, 1)
	info, err := os.Stat(indexes[0])
	require.NoError(t, err)
	require.Equal(t, int64(3*15), info.Size(), "the index is as it is known here")
	require.NoError(t, os.Truncate(indexes[0], 2*15))

	b = start(t, dir)
	produce(t, client(t, b), topic, "a2")
	aborted := client(t, b, kgo.TransactionalID("boot-2"))
	require.NoError(t, aborted.BeginTransaction())
	require.NoError(t, aborted.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("aborted")}).FirstErr())
	require.NoError(t, aborted.EndTransaction(t.Context(), kgo.TryAbort))
	produce(t, client(t, b), topic, "a3")
	require.Equal(t, []string{"a0", "a1", "a2", "a3"}, valuesOf(readAll(t, b, topic, committed())))

	b = start(t, crash(t, dir))
	require.Equal(t, []string{"a0", "a1", "a2", "a3"}, valuesOf(readAll(t, b, topic, committed())), "after another kill")
}

// A batch that is there in part was never acknowledged: it goes, and the marker of
// the transaction before it comes where it was.
func TestBroker_RepairsALogThatAKillCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := start(t, dir)
	createTopic(t, client(t, b), topic, 1, nil)
	open := client(t, b, kgo.TransactionalID("boot-1"))
	require.NoError(t, open.BeginTransaction())
	require.NoError(t, open.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("never committed")}).FirstErr())
	produce(t, client(t, b), topic, "a0", "a1")

	dir = crash(t, dir)
	logs, err := filepath.Glob(filepath.Join(dir, "broker", "partitions", "*", "*.dat"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	info, err := os.Stat(logs[0])
	require.NoError(t, err)
	require.NoError(t, os.Truncate(logs[0], info.Size()-1))

	b = start(t, dir)
	require.Equal(t, []string{"a0"}, valuesOf(readAll(t, b, topic, committed())))
	produce(t, client(t, b), topic, "a2")
	b = start(t, crash(t, dir))
	require.Equal(t, []string{"a0", "a2"}, valuesOf(readAll(t, b, topic, committed())))
}

// What repair does not know it leaves alone, and kfake is asked.
func TestBroker_LeavesFilesOfAnotherVersionAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	partition := filepath.Join(dir, "broker", "partitions", "t-0")
	require.NoError(t, os.MkdirAll(partition, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broker", "meta.json"), []byte(`{"version":2}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(partition, "0.dat"), []byte("of tomorrow"), 0o600))
	_, err := devbroker.Start(devbroker.Options{Dir: dir})
	require.ErrorContains(t, err, "newer than supported")
	got, err := os.ReadFile(filepath.Join(partition, "0.dat"))
	require.NoError(t, err)
	require.Equal(t, "of tomorrow", string(got))
}
