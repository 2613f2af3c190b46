package sim_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// One event whose receiver fails eight times and then works: nine attempts over
// up to a day, each at a legal time, all with one id, each freshly signed.
func TestDay_DeliveredAtTheNinthAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(t)
		r := w.Receiver(FailsFirst(8, http.StatusInternalServerError))
		w.Start()
		w.Endpoint("ep_day", r.URL)
		w.Produce("ep_day", "order-1", `{"n":1}`)
		time.Sleep(26 * time.Hour)

		posts := r.Posts()
		require.Len(t, posts, 9)
		requireLegal(t, posts, retry.DefaultPolicy())
		require.Empty(t, w.DeadLetters())
		attempts := w.Attempts()
		require.Len(t, attempts, 9)
		require.Equal(t, "delivered", attempts[8].Decision)
	})
}

// One that fails nine times lands in the DLQ, with its history, and nowhere else.
func TestDay_DeadAfterTheNinthFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWorld(t)
		r := w.Receiver(Answers(http.StatusServiceUnavailable))
		w.Start()
		w.Endpoint("ep_dead", r.URL)
		w.Produce("ep_dead", "", `{"n":1}`)
		time.Sleep(27 * time.Hour)

		posts := r.Posts()
		require.Len(t, posts, 9)
		requireLegal(t, posts, retry.DefaultPolicy())
		letters := w.DeadLetters()
		require.Len(t, letters, 1)
		require.Equal(t, string(retry.HTTP5xx), letters[0].Reason)
		require.Equal(t, posts[0].ID, letters[0].Delivery.ID)
		require.JSONEq(t, `{"n":1}`, string(letters[0].Delivery.Payload))
		require.Equal(t, 9, letters[0].Delivery.History.TotalAttempts)
		require.Equal(t, http.StatusServiceUnavailable, letters[0].Delivery.History.LastStatus)
	})
}

// requireLegal checks the posts of one delivery: one id, attempts counted from 1,
// each signed when it was sent (C-026), each wait within (0, cap] but for what a
// breaker, holding it without an attempt, may have added (C-088).
func requireLegal(t *testing.T, posts []Post, p retry.Policy) {
	t.Helper()
	for i, post := range posts {
		require.Equal(t, posts[0].ID, post.ID, "the id never changes")
		require.Equal(t, i+1, post.Attempt)
		require.WithinDuration(t, post.Arrived, post.Timestamp, 2*time.Second)
		if i == 0 {
			continue
		}
		wait := post.Arrived.Sub(posts[i-1].Arrived)
		require.Positive(t, wait)
		// A hold lasts at most an opening of the breaker (15 m and 20 %), and a spread of the same length.
		require.LessOrEqual(t, wait, p.Caps[i-1]+2*18*time.Minute+time.Second, "wait before attempt %d", i+1)
	}
}
