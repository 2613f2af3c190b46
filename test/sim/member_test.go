package sim_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/config"
)

// A process freezes as it joins a rebalance, and the group gives it up. When it
// goes on, its join is refused and it joins again, as another member and with a
// valid generation, while it still has what it did before. None of that may be
// settled: the units' new owner has done it already (invariants 2 and 11).
func TestMember_GivenUpSettlesNothingAsTheNextOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := NewWorldOf(t, Profile{Brokers: 1, Window: time.Hour, InFlight: 16, Entries: 32, Memory: 256 * config.MiB}.Setting())
		r := w.Receiver(func(n int, _ *Post) (int, time.Duration) {
			if n == 1 {
				return http.StatusNoContent, 1900 * time.Millisecond
			}
			return http.StatusNoContent, 0
		})
		first := w.Start()
		w.Endpoint("ep", r.URL)
		w.Produce("ep", "order-1", `{"n":1}`)
		require.Eventually(t, func() bool { return len(r.Posts()) == 1 }, 10*time.Second, 10*time.Millisecond)

		first.wire.sees(kmsg.JoinGroup, first.Freeze)
		w.Start()
		time.Sleep(20 * time.Second)
		require.Len(t, r.Posts(), 2, "the new owner, which can't know, posts it again")
		require.Len(t, w.Attempts(), 1)
		first.Thaw()
		time.Sleep(20 * time.Second)

		attempts := w.Attempts()
		require.Len(t, attempts, 1, "what the given-up member did is settled nowhere")
		require.Equal(t, "delivered", attempts[0].Decision)
		for _, tier := range w.Catalogue().TierTopics() {
			require.Empty(t, w.Topic(tier))
		}
		require.Len(t, r.Posts(), 2)
		require.Equal(t, r.Posts()[0].ID, r.Posts()[1].ID)
	})
}
