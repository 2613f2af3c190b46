package settle_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first transaction of a client must not be taken for committed when it was not.
// franz-go v1.22.3 stores the partitions of a topic that it produces to for the first
// time after it has let the records go: when their acknowledgement is faster,
// EndTransaction finds that nothing was produced, aborts, and returns no error.
func TestSettler_FirstTransactionsAreNotLost(t *testing.T) {
	t.Parallel()
	addrs := fake(t).ListenAddrs()
	const settlers, rounds = 8, 15
	var wg sync.WaitGroup
	for range settlers {
		r := newRig(t, addrs)
		wg.Go(func() {
			want := []string{}
			for i := range rounds {
				r.stop()
				r.start() // a new client
				want = append(want, fmt.Sprintf("%03d", i))
				if err := <-r.want(0, int64(i+1), r.outcome("out", 0, want[i])).answers; err != nil {
					t.Error(err)
				}
			}
			if got := r.visible("out"); !slices.Equal(want, got) {
				t.Errorf("settled %v, visible %v", want, got)
			}
			r.requireCommitted(map[int32]int64{0: rounds})
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
}
