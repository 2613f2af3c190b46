package lane_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/lane"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestLane_OneClassIsAFIFO(t *testing.T) {
	t.Parallel()
	var l lane.Lane[int]
	for i := range 1000 {
		l.Push(lane.Live, i, 1, start)
	}
	for want := range 1000 {
		peeked, _, ok := l.Peek()
		require.True(t, ok)
		got, class, ok := l.Pop()
		require.True(t, ok)
		require.Equal(t, want, got)
		require.Equal(t, got, peeked)
		require.Equal(t, lane.Live, class)
	}
	_, _, ok := l.Pop()
	require.False(t, ok)
	_, _, ok = l.Peek()
	require.False(t, ok)
}

func TestLane_LiveGoesFirstAndNobodyStarves(t *testing.T) {
	t.Parallel()
	var l lane.Lane[int]
	for i := range 250 { // ten rounds, were all classes as long
		for class := lane.Live; class <= lane.Retry; class++ {
			l.Push(class, i, 1, start)
		}
	}
	counts := map[lane.Class]int{}
	for i := range 250 {
		_, class, ok := l.Pop()
		require.True(t, ok)
		if i < 4 {
			require.Equal(t, lane.Live, class)
		}
		counts[class]++
	}
	require.Equal(t, map[lane.Class]int{lane.Live: 160, lane.Replay: 40, lane.Held: 40, lane.Retry: 10}, counts)

	// Endless traffic of the others: each waits one round at most.
	for waits, most := range map[lane.Class]int{lane.Live: 1, lane.Replay: 5, lane.Held: 6, lane.Retry: 25} {
		var m lane.Lane[int]
		for class := lane.Live; class <= lane.Retry; class++ {
			for i := range 30 {
				if class != waits {
					m.Push(class, i, 1, start)
				}
			}
		}
		m.Push(waits, -1, 1, start)
		for pops := 1; ; pops++ {
			if _, class, _ := m.Pop(); class == waits {
				break
			}
			require.Less(t, pops, most, waits.String())
		}
	}
}

// A class whose deliveries never stay until their turn, because they leave for having waited too long and come back,
// has its share all the same, and no more than that.
func TestLane_WhoLeavesOutOfTurnKeepsItsClaim(t *testing.T) {
	t.Parallel()
	for _, stay := range []int{1, 3, 10, 15} {
		for _, away := range []int{1, 7, 40} {
			var l lane.Lane[int]
			takes, served := 0, 0
			take := func() {
				l.Push(lane.Live, 0, 1, start)
				takes++
				if _, class, _ := l.Pop(); class == lane.Retry {
					served++
				}
			}
			l.Push(lane.Live, 0, 1, start)
			const visits = 1000
			for range visits {
				l.Push(lane.Retry, 1, 1, start)
				for range stay {
					take()
				}
				next, ok := l.PeekOf(lane.Retry)
				left, was := l.PopOf(lane.Retry)
				require.Equal(t, left, next)
				require.Equal(t, was, ok)
				for range away {
					take()
				}
			}
			require.LessOrEqual(t, served, takes/17+1, "stay %d, away %d", stay, away)
			// Its turn, when it has come, waits for the next visit, and the one after that waits anew.
			require.GreaterOrEqual(t, served, takes/(17+2*(stay+away)), "stay %d, away %d", stay, away)
		}
	}
}

func TestLane_AnEmptyClassLeavesItsShareToTheOthers(t *testing.T) {
	t.Parallel()
	var l lane.Lane[int]
	for i := range 100 {
		l.Push(lane.Replay, i, 1, start)
	}
	for range 50 {
		_, class, _ := l.Pop()
		require.Equal(t, lane.Replay, class)
	}
	l.Push(lane.Live, 1, 1, start)
	_, class, _ := l.Pop()
	require.Equal(t, lane.Live, class, "live does not wait for rounds that replay had to itself")
}

// The lane against plain slices, one for each class: whatever is pushed and popped, each class keeps its order,
// sizes and ages are those of what waits, and Peek tells the truth.
func TestLane_AgreesWithSlices(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var l lane.Lane[int]
		type entry struct {
			id, bytes int
			at        time.Time
		}
		model := map[lane.Class][]entry{}
		now, id := start, 0
		growing := true
		for step := range 20_000 {
			now = now.Add(time.Duration(rnd.IntN(1000)) * time.Millisecond)
			if step%3000 == 0 {
				growing = !growing
			}
			if rnd.IntN(10) < map[bool]int{true: 7, false: 3}[growing] {
				class := lane.Class(rnd.IntN(4))
				e := entry{id: id, bytes: rnd.IntN(5000), at: now}
				id++
				l.Push(class, e.id, e.bytes, now)
				model[class] = append(model[class], e)
			} else {
				peeked, peekedClass, peekedOK := l.Peek()
				got, class, ok := l.Pop()
				require.Equal(t, peekedOK, ok)
				require.Equal(t, peeked, got)
				require.Equal(t, peekedClass, class)
				if ok {
					require.Equal(t, model[class][0].id, got)
					model[class] = model[class][1:]
				} else {
					require.Empty(t, len(model[0])+len(model[1])+len(model[2])+len(model[3]))
				}
			}
			if step%37 != 0 {
				continue
			}
			n, bytes, oldest := 0, 0, time.Duration(0)
			for class, entries := range model {
				n += len(entries)
				if len(entries) != l.LenOf(class) {
					t.Fatalf("step %d: %s has %d, want %d", step, class, l.LenOf(class), len(entries))
				}
				age := time.Duration(0)
				if len(entries) > 0 {
					age = now.Sub(entries[0].at)
				}
				if l.AgeOf(class, now) != age {
					t.Fatalf("step %d: %s is %s old, want %s", step, class, l.AgeOf(class, now), age)
				}
				oldest = max(oldest, age)
				for _, e := range entries {
					bytes += e.bytes
				}
			}
			if l.Len() != n || l.Bytes() != bytes || l.OldestAge(now) != oldest {
				t.Fatalf("step %d: len %d bytes %d age %s, want %d %d %s", step, l.Len(), l.Bytes(), l.OldestAge(now), n, bytes, oldest)
			}
		}
		var want []int
		for class := lane.Live; class <= lane.Retry; class++ {
			for _, e := range model[class] {
				want = append(want, e.id)
			}
		}
		require.Equal(t, want, l.Drain())
		require.Zero(t, l.Len())
		require.Zero(t, l.Bytes())
		require.Nil(t, l.Drain())
	}
}

func TestLane_AClockThatStepsBackGivesNoNegativeAge(t *testing.T) {
	t.Parallel()
	var l lane.Lane[int]
	l.Push(lane.Live, 1, 1, start)
	require.Zero(t, l.OldestAge(start.Add(-time.Hour)))
}

func TestLane_AnUnknownClassCannotJumpTheQueue(t *testing.T) {
	t.Parallel()
	var l lane.Lane[string]
	l.Push(lane.Class(200), "foreign", 1, start)
	require.Equal(t, 1, l.LenOf(lane.Retry))
	require.Equal(t, "unknown", lane.Class(200).String())
	_, class, ok := l.Pop()
	require.True(t, ok)
	require.Equal(t, lane.Retry, class)
}

// A flood must not hold its memory after it has passed: there may be 100,000 lanes.
func TestLane_GivesMemoryBackAfterAFlood(t *testing.T) {
	t.Parallel()
	var l lane.Lane[*[64]byte]
	for range 10_000 {
		l.Push(lane.Live, new([64]byte), 64, start)
	}
	for l.Len() > 3 {
		l.Pop()
	}
	require.LessOrEqual(t, lane.Entries(&l), 64, "entries held for 3 items")
	for l.Len() > 0 {
		l.Pop()
	}
	require.LessOrEqual(t, lane.Entries(&l), 16, "entries held by an empty lane")
}

func TestLane_SteadyTrafficDoesNotAllocate(t *testing.T) {
	var l lane.Lane[int]
	for i := range 8 {
		l.Push(lane.Live, i, 1, start)
	}
	allocs := testing.AllocsPerRun(1000, func() {
		l.Push(lane.Live, 1, 1, start)
		l.Pop()
	})
	require.Zero(t, allocs)
}
