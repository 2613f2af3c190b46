package sim_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Sub is one endpoint of a run and its receiver.
type Sub struct {
	id        string
	receiver  *Receiver
	spec      string // its settings, as the API takes them
	width     int    // requests it may have in flight
	strict    bool   // its deliveries land in the order of the log
	permanent []int

	mu    sync.Mutex // guards what follows
	modes []modeSince
}

type modeSince struct {
	mode mode
	at   time.Time
}

// mode is how a receiver behaves for a while.
type mode struct {
	name string
	fail failing
	do   func(rnd *rand.Rand, p *Post) (int, time.Duration)
	dead bool // its host is down
}

type failing int

const (
	works failing = iota // or may work
	soft                 // does nothing but fail, but not only hard
	hard
)

// modes are all behaviours; the first is the good one. patience is how long a
// sender waits for an answer.
func modes(patience time.Duration) []mode {
	always := func(status int) func(*rand.Rand, *Post) (int, time.Duration) {
		return func(*rand.Rand, *Post) (int, time.Duration) { return status, 0 }
	}
	later := func(status int, seconds string) func(*rand.Rand, *Post) (int, time.Duration) {
		return func(_ *rand.Rand, p *Post) (int, time.Duration) {
			p.Reply.Set("Retry-After", seconds)
			return status, 0
		}
	}
	return []mode{
		{name: "answers 204", do: always(http.StatusNoContent)},
		{name: "answers 500", fail: hard, do: always(http.StatusInternalServerError)},
		{name: "answers 422", fail: soft, do: always(http.StatusUnprocessableEntity)},
		{name: "redirects", fail: soft, do: always(http.StatusFound)},
		{name: "answers 429, come back in 3 s", fail: hard, do: later(http.StatusTooManyRequests, "3")},
		{name: "answers 503, come back in 2 s", fail: hard, do: later(http.StatusServiceUnavailable, "2")},
		{name: "is gone", fail: soft, do: always(http.StatusGone)},
		{name: "hangs", fail: hard, do: func(*rand.Rand, *Post) (int, time.Duration) { return http.StatusNoContent, Never }},
		{name: "is slow", do: func(rnd *rand.Rand, _ *Post) (int, time.Duration) {
			return http.StatusNoContent, time.Duration(rnd.Int64N(int64(patience)))
		}},
		{name: "is about as slow as we are patient", do: func(rnd *rand.Rand, _ *Post) (int, time.Duration) {
			return http.StatusNoContent, patience + time.Duration(rnd.Int64N(int64(20*time.Millisecond))) - 10*time.Millisecond
		}},
		{name: "breaks connections", fail: hard, do: always(Reset)},
		{name: "flaps", do: func(rnd *rand.Rand, _ *Post) (int, time.Duration) {
			if rnd.IntN(2) == 0 {
				return http.StatusInternalServerError, 0
			}
			return http.StatusNoContent, 0
		}},
		{name: "does anything", do: func(rnd *rand.Rand, p *Post) (int, time.Duration) {
			status := []int{200, 202, 204, 304, 400, 404, 429, 500, 503, Reset}[rnd.IntN(10)]
			if rnd.IntN(3) == 0 {
				p.Reply.Set("Retry-After", "1")
			}
			return status, time.Duration(rnd.Int64N(int64(patience / 4)))
		}},
		{name: "is down", fail: hard, do: always(Reset), dead: true},
	}
}

// behave switches the receiver to a mode; its answers are drawn from seed.
func (s *Sub) behave(m mode, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	if m.dead {
		s.receiver.host.Down()
	} else {
		s.receiver.host.Up()
	}
	s.receiver.Script(func(_ int, p *Post) (int, time.Duration) { return m.do(rnd, p) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.modes = append(s.modes, modeSince{m, time.Now()})
}

// span is a time in which a receiver did nothing but fail.
type span struct {
	from, to time.Time
	hard     bool
}

// failing lists the longest spans of failing, those of hard failures too where
// they are part of a longer one.
func (s *Sub) failing() []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	var spans []span
	for _, least := range []failing{soft, hard} {
		var open *span
		for _, m := range s.modes {
			fails := m.mode.fail >= least
			switch {
			case fails && open == nil:
				open = &span{from: m.at, hard: least == hard}
			case !fails && open != nil:
				open.to = m.at
				spans = append(spans, *open)
				open = nil
			}
		}
		if open != nil {
			open.to = time.Now()
			spans = append(spans, *open)
		}
	}
	return spans
}

// settings draws what an endpoint asks for.
func (s *Sub) settings(rnd *rand.Rand, url string) {
	spec := map[string]any{"url": url}
	s.width = 1
	if rnd.IntN(2) == 0 {
		s.width = 2 + rnd.IntN(6)
		spec["order"], spec["max_in_flight"] = "parallel", s.width
	} else if rnd.IntN(2) == 0 {
		s.strict = true
		spec["order"] = "strict"
	}
	if rnd.IntN(5) == 0 {
		spec["rate_per_second"] = 2 + rnd.IntN(20)
	}
	if rnd.IntN(5) == 0 {
		s.permanent = []int{http.StatusUnprocessableEntity}
		spec["permanent_statuses"] = s.permanent
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	s.spec = string(text)
}
