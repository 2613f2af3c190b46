package processor_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/processor"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// failing is claims on disk that can be made to fail, as a bad block would.
type failing struct {
	*claimstore.Store
	bad     atomic.Bool
	renewed atomic.Int32
	beyond  error // what Renew returns; nil: it succeeds
}

func newFailing(t *testing.T) *failing {
	t.Helper()
	store, err := claimstore.Open(claimstore.Options{
		Config: claimstore.Config{Directory: "/claims", Cache: 8 << 20}, Window: 24 * time.Hour,
		Log: slog.New(slog.DiscardHandler), FS: vfs.NewMem(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return &failing{Store: store}
}

func (f *failing) Open(unit int32, log claim.Log) (claim.Store, error) {
	s, err := f.Store.Open(unit, log)
	return &failingStore{Store: s, of: f}, err
}

func (f *failing) Renew() error {
	if f.beyond != nil {
		return f.beyond
	}
	f.renewed.Add(1)
	f.bad.Store(false)
	return f.Store.Renew()
}

type failingStore struct {
	claim.Store
	of *failing
}

func (s *failingStore) Get(generation int64, key claim.Fingerprint) (claim.Owner, bool, error) {
	if s.of.bad.Load() {
		return claim.Owner{}, false, fmt.Errorf("%w: bad block", claim.ErrFailed)
	}
	return s.Store.Get(generation, key)
}

func (s *failingStore) Put(generation int64, key claim.Fingerprint, o claim.Owner) error {
	if s.of.bad.Load() {
		return fmt.Errorf("%w: bad block", claim.ErrFailed)
	}
	return s.Store.Put(generation, key, o)
}

// keyed produces n events, each of an endpoint and a key of its own.
func (w *world) keyed(n int) {
	w.t.Helper()
	for i := range n {
		require.NoError(w.t, w.client.ProduceSync(w.t.Context(), &kgo.Record{
			Topic: w.catalogue.Events(), Key: fmt.Appendf(nil, "ep-%d", i), Value: []byte(`{}`),
			Headers: []kgo.RecordHeader{
				{Key: topics.HeaderEventType, Value: []byte("t")}, {Key: topics.HeaderIdempotencyKey, Value: fmt.Appendf(nil, "k%d", i)},
			},
		}).FirstErr())
	}
}

// Invariant 3: claims on disk that cannot be read answer nothing. All units are dropped, and restored from the topic
// into a store that is renewed; what was sent again meanwhile, and before, is delivered once.
func TestProcessor_ClaimsThatFailAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		claims := newFailing(t)
		w.more = func(o *processor.Options) { o.Claims = claims }
		_, stop := w.process("a")
		w.keyed(50)
		time.Sleep(30 * time.Second)
		n, again := w.delivered()
		require.Equal(t, 50, n)
		require.Zero(t, again)

		claims.bad.Store(true)
		w.keyed(60) // 50 of them for the second time
		time.Sleep(2 * time.Minute)
		n, again = w.delivered()
		require.Equal(t, 60, n)
		require.Zero(t, again)
		require.EqualValues(t, 1, claims.renewed.Load())
		require.NoError(t, stop())
	})
}

// A disk that cannot be used at all ends the process, with the reason.
func TestProcessor_ClaimsThatCannotBeRenewedEndIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		claims := newFailing(t)
		claims.beyond = errors.New("no such device")
		w.more = func(o *processor.Options) { o.Claims = claims }
		_, stop := w.process("a")
		claims.bad.Store(true)
		w.keyed(1)
		time.Sleep(time.Minute)
		n, _ := w.delivered()
		require.Zero(t, n)
		require.ErrorContains(t, stop(), "no such device")
	})
}

// A process that ends in order and comes back reads none of the claims again that it has on disk.
func TestProcessor_RestartsFromClaimsOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createTopics()
		claims := newFailing(t)
		w.more = func(o *processor.Options) { o.Claims = claims }
		for stint := range 3 {
			_, stop := w.process(fmt.Sprint("p", stint))
			w.keyed(100)
			time.Sleep(30 * time.Second)
			require.NoError(t, stop())
			n, again := w.delivered()
			require.Equal(t, 100, n)
			require.Zero(t, again)
			require.EqualValues(t, 100, claims.Stats().Held)
		}
		require.Zero(t, claims.renewed.Load())
		restored := w.counted("barnabas_restored_records_total", "")
		require.Less(t, restored, 100.0)
	})
}
