package sim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var oneSeed = flag.Int64("seed", -1, "run this seed alone")

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

// hangs is how long a seed may take in real time: a hundred times what it does.
const hangs = 3 * time.Minute

func runSeed(t *testing.T, seed uint64) {
	t.Helper()
	// Outside the bubble, and so in real time: a goroutine that waits for a mutex stops a bubble's clock.
	watch := time.AfterFunc(hangs, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("seed %d has hung for %s of real time", seed, hangs))
	})
	defer watch.Stop()
	synctest.Test(t, func(t *testing.T) {
		profile, rnd := NewProfile(seed)
		r := NewRun(t, profile, rnd)
		r.Play(Plan(profile, rnd, r.modes))
		r.report(append(r.Verdict(r.ledger, r.subs), r.ledger.violations...))
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
