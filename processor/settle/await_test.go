package settle

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A beat begins when one has passed, sooner in a hurry, and never sooner than units need to hear of the last one.
func TestSettler_Await(t *testing.T) {
	t.Parallel()
	const beat = 100 * time.Millisecond
	cases := map[string]struct {
		hurry []time.Duration // after the want
		want  time.Duration
	}{
		"nobody is in a hurry": {want: beat},
		"a hurry at once":      {hurry: []time.Duration{0}, want: beat / 10},
		"a hurry in between":   {hurry: []time.Duration{beat / 2}, want: beat / 2},
		"several":              {hurry: []time.Duration{beat / 4, beat / 4, beat / 2}, want: beat / 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := New(Options{Config: DefaultConfig(), Group: "g", Log: slog.New(slog.DiscardHandler)})
				s.Want(nil)
				for _, after := range c.hurry {
					time.AfterFunc(after, s.Hurry)
				}
				begun := time.Now()
				require.True(t, s.await(t.Context()))
				require.Equal(t, c.want, time.Since(begun))
			})
		})
	}
}

// Nobody wanted: a hurry is for a beat that comes, and none comes of it.
func TestSettler_AwaitsAWant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Config: DefaultConfig(), Group: "g", Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s.Hurry()
		require.False(t, s.await(ctx))
	})
}
