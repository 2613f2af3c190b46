package api_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// The answer may come before its event's producer knows where the event is, or after.
func TestVerdicts_EitherOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := api.NewVerdicts()
		early := api.Answer{Verdict: schemas.VerdictFirst, OwnerID: "early"}
		v.Put(3, 7, early)
		got, ok := v.Wait(t.Context(), 3, 7)
		require.True(t, ok)
		require.Equal(t, early, got)

		late := api.Answer{Verdict: schemas.VerdictDuplicate, OwnerID: "late"}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				got, ok := v.Wait(t.Context(), 3, 8)
				require.True(t, ok)
				require.Equal(t, late, got)
			})
		}
		synctest.Wait()
		v.Put(4, 8, early) // another partition
		v.Put(3, 9, early) // another offset
		v.Put(3, 8, late)
		wg.Wait()
	})
}

func TestVerdicts_WaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := api.NewVerdicts()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, ok := v.Wait(ctx, 0, 0)
		require.False(t, ok)
		v.Put(0, 0, api.Answer{}) // nobody is left who could be written to
		_, ok = v.Wait(t.Context(), 0, 0)
		require.True(t, ok)
	})
}

// Memory is bounded: of each partition the latest are kept, and a flood in one costs no other.
func TestVerdicts_KeepsTheLatest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := api.NewVerdicts()
		v.Put(1, 0, api.Answer{OwnerID: "other partition"})
		const n = 5000
		for i := range int64(n) {
			v.Put(0, i, api.Answer{OwnerID: fmt.Sprint(i)})
			v.Put(0, i, api.Answer{OwnerID: fmt.Sprint(i)}) // written again after a crash: no second place
		}
		got := func(partition int32, offset int64) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, ok := v.Wait(ctx, partition, offset)
			return ok
		}
		require.True(t, got(1, 0))
		kept := 0
		for i := range int64(n) {
			if got(0, i) {
				require.GreaterOrEqual(t, i, int64(n-1024), "the latest")
				kept++
			}
		}
		require.Equal(t, 1024, kept)
	})
}
