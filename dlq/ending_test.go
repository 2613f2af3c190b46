package dlq_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/dlq"
)

// What a batch came to is what the log says, whatever the client was told of its
// end, the first batch of a replay or a later one. A report says no more and no
// less than what happened, and the next run does the rest.
func TestReplay_TheLogDecidesWhatABatchCameTo(t *testing.T) {
	t.Parallel()
	const n, batch = 60, 20
	for name, c := range map[string]struct {
		tamper    tampering
		committed bool // the batch whose end was tampered with
		fenced    bool // by another replay, while the answer was lost
	}{
		// What franz-go v1.22.3 does with a transaction whose topics are all new to it.
		"no error, but aborted":            {tamper: commitAborts},
		"the requests are lost":            {tamper: loseRequest},
		"the answers are lost":             {tamper: loseAnswer, committed: true},
		"its repetition finds it done":     {tamper: loseOne, committed: true},
		"its repetition is refused: newer": {tamper: loseOne, committed: true, fenced: true},
	} {
		for at, nth := range map[string]int{"first": 1, "second": 2} {
			t.Run(name+", "+at, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.endpoints.enable("ep1")
				r.put(letters("ep1", n)...)
				w := &wire{nth: nth, tamper: c.tamper}
				if c.fenced {
					w.lost = func() { r.takeID(t) }
				}
				q := dlq.New(r.cat, append(r.kafka, kgo.Dialer(w.Dial), kgo.RequestRetries(2), kgo.RetryTimeout(time.Second))...)
				o := r.options(dlq.Filter{All: true})
				o.Rate = 100
				res, err := q.Replay(t.Context(), o)

				want := (nth - 1) * batch
				if c.committed {
					want += batch
				}
				switch {
				case c.tamper == loseOne && !c.fenced: // the client repeats the request by itself, and is told that all is well
					require.NoError(t, err)
					want = n
				case c.fenced:
					require.ErrorIs(t, err, dlq.ErrFenced)
				default:
					require.Error(t, err)
					require.NotErrorIs(t, err, dlq.ErrOutcomeUnknown)
					require.NotErrorIs(t, err, dlq.ErrFenced)
				}
				require.Equal(t, err != nil, res.Interrupted)
				require.Equal(t, want, res.Replayed)
				require.Len(t, r.replayedIDs(), want)
				r.requireEachOnce(n)
			})
		}
	}
}

// takeID does what a newer replay begins with.
func (r *rig) takeID(t *testing.T) {
	t.Helper()
	cl, err := kgo.NewClient(append(r.kafka, kgo.TransactionalID(r.cat.Prefix+"dlq-replay"))...)
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(t.Context()); err != nil {
		t.Error(err)
	}
}
