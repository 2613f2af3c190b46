package sim_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

var oneSeed = flag.Int64("seed", -1, "run this seed alone") //nolint:gochecknoglobals // flags are

// TestSeeds runs random schedules. Without more, a handful; SEEDS=n in the
// environment (make sim SEEDS=n) runs n of them, from BARNABAS_SIM_FROM on, and -seed one alone.
func TestSeeds(t *testing.T) {
	t.Parallel()
	from, n := number(t, "BARNABAS_SIM_FROM", 0), number(t, "SEEDS", 16)
	if *oneSeed >= 0 {
		from, n = int(*oneSeed), 1
	}
	for seed := from; seed < from+n; seed++ {
		t.Run(fmt.Sprintf("%d", seed), func(t *testing.T) {
			t.Parallel()
			runSeed(t, uint64(seed))
		})
	}
}

func runSeed(t *testing.T, seed uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		profile, rnd := NewProfile(seed)
		r := NewRun(t, profile, rnd)
		r.Play(Plan(profile, rnd, r.modes))
		r.report(r.Verdict(r.ledger, r.subs))
		if testing.Verbose() {
			t.Logf("%s: %d events, %d posts, virtual %s", profile, len(r.ledger.sent), r.posts(), r.now())
		}
	})
}

func (r *Run) posts() int {
	n := 0
	for _, s := range r.subs {
		n += len(s.receiver.Posts())
	}
	return n
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}
