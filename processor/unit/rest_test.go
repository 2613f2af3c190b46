package unit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// What has been read to its end is not asked for with every fetch. What the unit writes there itself is there at once, and what
// comes from outside within seconds.
func TestUnit_StreamsWithNothingToDoRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.FetchWait = 500 * time.Millisecond }).start()
		r.endpoint("ep")
		attempts := 0
		r.sender.answer(func(deliver.Request) (deliver.Result, time.Duration) {
			if attempts++; attempts == 1 {
				return failed(retry.HTTP5xx), time.Millisecond
			}
			return status(204), time.Millisecond
		})
		resting := func() (n int) {
			for _, topic := range append(r.Catalogue.TierTopics(), r.Catalogue.Replay()) {
				if r.log.isPaused(topic) {
					n++
				}
			}
			return n
		}
		require.Zero(t, resting())
		time.Sleep(1100 * time.Millisecond)
		require.Equal(t, len(r.Catalogue.Tiers)+1, resting())
		require.False(t, r.log.isPaused(r.Catalogue.Events()))

		r.event("ep", "", `{}`)
		time.Sleep(10 * time.Second)
		posts := r.sender.seen()
		require.Len(t, posts, 2)
		due := posts[0].At.Add(r.Policy.Caps[0] / 2) // by the rig's chance
		require.WithinRange(t, posts[1].At, due, due.Add(20*time.Millisecond), "its retry is not late")

		for range 20 { // whatever the moment
			time.Sleep(700 * time.Millisecond)
			before := len(r.sender.seen())
			d := delivery("dlv_replayed", "ep", 0)
			value, err := schemas.EncodeDelivery(&d)
			require.NoError(t, err)
			r.log.append(record(r.Catalogue.Replay(), "ep", value))
			time.Sleep(5100 * time.Millisecond)
			require.Len(t, r.sender.seen(), before+1)
		}
		r.waiting(0, delivery("dlv_foreign", "ep", time.Second))
		before := len(r.sender.seen())
		time.Sleep(61 * time.Second)
		require.Len(t, r.sender.seen(), before+1, "nobody writes there but the unit; if somebody does, it is found")
		r.end()
	})
}
