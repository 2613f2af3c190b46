package devbroker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
)

// childDir tells the re-executed test binary to be a broker on that directory.
const childDir = "DEVBROKER_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		beBroker(dir)
	}
	goleak.VerifyTestMain(m)
}

// beBroker never returns: the parent kills it, or closes its standard input.
func beBroker(dir string) {
	b, err := devbroker.Start(devbroker.Options{Dir: dir})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(b.Addr())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	os.Exit(0) // as hard as a kill: the state is not saved
}

// child runs a broker in a process of its own, to be killed.
func child(t *testing.T, dir string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe() // closed when the parent dies, so that no child stays behind
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	addr = strings.TrimSpace(line)
	require.NotContains(t, addr, "error")
	var once sync.Once
	kill = func() {
		once.Do(func() {
			_ = cmd.Process.Kill() // SIGKILL
			_ = cmd.Wait()
		})
	}
	t.Cleanup(kill)
	return addr, kill
}

// kill -9 in mid-stream, several times on one directory: every acknowledged
// record, committed transaction and committed offset is there. (A transaction
// whose end was not acknowledged may be half there: limit 2.)
func TestBroker_KilledKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var acked ledger
	const rounds = 3
	for round := range rounds {
		addr, kill := child(t, dir)
		if round == 0 {
			cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
			require.NoError(t, err)
			createTopic(t, cl, "plain", 4, nil)
			createTopic(t, cl, "txn", 4, nil)
			cl.Close()
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for w := range 3 {
			wg.Go(func() { acked.producePlain(ctx, addr, round, w) })
		}
		wg.Go(func() { acked.produceTransactions(ctx, addr, round) })
		acked.waitFor(t, 400*(round+1), 40*(round+1)) // mid-stream: the producers go on while it is killed
		kill()
		cancel()
		wg.Wait()
	}

	b := start(t, dir)
	plain := make(map[string]int)
	for _, r := range readAll(t, b, "plain") {
		plain[string(r.Value)]++
	}
	txn := make(map[string]int)
	for _, r := range readAll(t, b, "txn", committed()) {
		txn[string(r.Value)]++
	}
	acked.mu.Lock()
	defer acked.mu.Unlock()
	for v := range acked.plain {
		require.Equal(t, 1, plain[v], "acknowledged, so there: %s", v)
	}
	for id := range acked.txns {
		for i := range txnSize {
			require.Equal(t, 1, txn[txnValue(id, i)], "committed, so there: %s", txnValue(id, i))
		}
	}
	// The offset committed in a round's transactions is at least the last acknowledged one's.
	offsets, err := kadm.NewClient(client(t, b)).FetchOffsets(t.Context(), "g")
	require.NoError(t, err)
	for round := range rounds {
		at, ok := offsets.Lookup("plain", int32(round))
		require.True(t, ok)
		require.GreaterOrEqual(t, at.At, acked.offsets[round], "round %d", round)
		require.Equal(t, "at "+strconv.FormatInt(at.At, 10), at.Metadata, "offset and metadata belong together")
	}
	t.Logf("%d records and %d transactions acknowledged before %d kills", len(acked.plain), len(acked.txns), rounds)
}

// txnSize is how many records a transaction writes, over all partitions.
const txnSize = 8

func txnValue(id string, i int) string { return id + "/" + strconv.Itoa(i) }

// ledger is what the broker acknowledged.
type ledger struct {
	mu      sync.Mutex // guards the rest
	plain   map[string]bool
	txns    map[string]bool
	offsets map[int]int64 // round -> last acknowledged offset of partition round
}

func (l *ledger) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.plain == nil {
		l.plain, l.txns, l.offsets = make(map[string]bool), make(map[string]bool), make(map[int]int64)
	}
	f()
}

func (l *ledger) waitFor(t *testing.T, plain, txns int) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.plain) >= plain && len(l.txns) >= txns
	}, 30*time.Second, 5*time.Millisecond)
}

func (l *ledger) producePlain(ctx context.Context, addr string, round, worker int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, cl.Close)() // an idempotent record in flight is not given up on before
	defer cl.Close()
	for i := 0; ctx.Err() == nil; i++ {
		v := fmt.Sprintf("%d-%d-%d", round, worker, i)
		if cl.ProduceSync(ctx, &kgo.Record{Topic: "plain", Value: []byte(v)}).FirstErr() == nil {
			l.note(func() { l.plain[v] = true })
		}
	}
}

// produceTransactions settles as the processor does: records and offsets with metadata in one transaction.
func (l *ledger) produceTransactions(ctx context.Context, addr string, round int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.TransactionalID(fmt.Sprintf("boot-%d", round)), kgo.TransactionTimeout(10*time.Second))
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, cl.Close)()
	defer cl.Close()
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("txn-%d-%d", round, i)
		if err := l.transaction(ctx, cl, id, round, int64(i+1)); err != nil {
			return
		}
		l.note(func() { l.txns[id] = true; l.offsets[round] = int64(i + 1) })
	}
}

func (l *ledger) transaction(ctx context.Context, cl *kgo.Client, id string, partition int, offset int64) error {
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	records := make([]*kgo.Record, txnSize)
	for i := range records {
		records[i] = &kgo.Record{Topic: "txn", Value: []byte(txnValue(id, i))}
	}
	return errors.Join(
		cl.ProduceSync(ctx, records...).FirstErr(),
		commitInTxn(ctx, cl, "g", "plain", int32(partition), offset, "at "+strconv.FormatInt(offset, 10)),
		cl.EndTransaction(ctx, kgo.TryCommit),
	)
}
