package unit_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-107: one endpoint of a partition hangs for 30 s with each request, well or badly in the end, one or many at a time, and
// has 10,000 events, all at once or over the whole time. 99 healthy endpoints of the same partition have one event a second
// each, for a hundred seconds, so that the retries of what hangs are in it. Their p99 from the log to the answer stays below
// twice what it is without the neighbour, and the neighbour never has more in flight than it may.
func TestUnit_OneThatHangsLeavesTheOthersTheirPace(t *testing.T) {
	t.Parallel()
	const healthy, lasts = 99, 100 * time.Second
	answer := func(req deliver.Request) (deliver.Result, time.Duration) {
		return status(204), 20 * time.Millisecond
	}
	run := func(t *testing.T, width int, flood func(r *rig, second int), hang deliver.Result) (p99 time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(r *rig) { setInFlight(r, 1024) }).start()
			r.endpoint("hangs", func(e *schemas.Endpoint) {
				if width > 1 {
					parallel(width)(e)
				}
			})
			r.sender.answer(func(req deliver.Request) (deliver.Result, time.Duration) {
				if req.Endpoint.ID == "hangs" {
					return hang, 30 * time.Second
				}
				return answer(req)
			})
			for i := range healthy {
				r.endpoint(fmt.Sprintf("ep-%d", i))
			}
			sent := map[string]time.Time{}
			for second := range int(lasts / time.Second) {
				if flood != nil {
					flood(r, second)
				}
				for i := range healthy {
					payload := fmt.Sprintf("%d/%d", second, i)
					sent[payload] = time.Now()
					r.event(fmt.Sprintf("ep-%d", i), "", payload)
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			var took []time.Duration
			for _, p := range r.sender.seen() {
				if p.EndpointID != "hangs" {
					took = append(took, p.At.Add(20*time.Millisecond).Sub(sent[p.Payload]))
				}
			}
			require.Len(t, took, healthy*int(lasts/time.Second))
			slices.Sort(took)
			p99 = took[len(took)*99/100]
			if flood != nil {
				require.LessOrEqual(t, r.sender.width("hangs"), max(width, 1), "in flight at once")
				require.Positive(t, r.sender.width("hangs"))
				require.Less(t, took[len(took)-1], r.LaneAge, "nor is any single one kept for long")
				require.Positive(t, r.log.inTiers(), "what hangs waits in the tiers")
			}
			r.unit.Drop(unit.ErrLost)
			<-r.unit.Done()
			time.Sleep(time.Second) // a beat that was wanted finds nobody
		})
		return p99
	}

	baseline := run(t, 0, nil, deliver.Result{})
	require.Positive(t, baseline)
	events := func(n int) func(*rig) {
		return func(r *rig) {
			for range n {
				r.event("hangs", "", `{}`)
			}
		}
	}
	atOnce := func(at int) func(r *rig, second int) {
		return func(r *rig, second int) {
			if second == at {
				events(10_000)(r)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		width int
		flood func(r *rig, second int)
		hang  deliver.Result
	}{
		{"10,000 at once, given up", 1, atOnce(5), failed(retry.Timeout)},
		{"10,000 at once, answered, 50 at a time", 50, atOnce(5), status(204)},
		{"10,000 before anything else, given up, 8 at a time", 8, atOnce(0), failed(retry.Timeout)},
		{"10,000 before anything else, answered", 1, atOnce(0), status(204)},
		{"over the whole time, given up, 8 at a time", 8, func(r *rig, _ int) { events(56)(r) }, failed(retry.Timeout)},
		{"over the whole time, answered", 1, func(r *rig, _ int) { events(56)(r) }, status(204)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p99 := run(t, tt.width, tt.flood, tt.hang)
			t.Logf("p99 %s, without the neighbour %s", p99, baseline)
			require.Less(t, p99, 2*baseline)
		})
	}
}
