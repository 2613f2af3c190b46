package plan

import (
	"math/rand/v2"
	"time"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// Outage is what happens when every endpoint fails, and what the failing ones cost all the time.
type Outage struct {
	Windows []OutageWindow `json:"windows"`
	// WaitingPerHour is how many deliveries begin to wait in each hour in which every endpoint fails; WaitingMost how many
	// there are when the first ones reach their lifetime.
	WaitingPerHour int `json:"waiting_per_hour"`
	WaitingMost    int `json:"waiting_most"`

	// HoldsFirstHour and HoldsLater are how often one waiting delivery is written in an hour, drawn: behind an endpoint that
	// has just begun to fail, and behind one that has failed for long. TierShares is where those writes go.
	// WritesFirstHour and WritesDrawn are what all make in the first hour: the bound, and what was drawn.
	HoldsFirstHour  float64   `json:"holds_first_hour"`
	HoldsLater      float64   `json:"holds_later"`
	TierShares      []float64 `json:"tier_shares"`
	WritesFirstHour int       `json:"writes_first_hour"`
	WritesDrawn     int       `json:"writes_first_hour_drawn"`

	// What the failing share costs when it has failed for a lifetime: what waits, and writes and requests per second.
	Failing         int     `json:"failing_endpoints"`
	FailingWaiting  int     `json:"failing_waiting"`
	FailingWrites   float64 `json:"failing_writes_per_second"`
	FailingRequests float64 `json:"failing_requests_per_second"`
}

// OutageWindow bounds the requests of one length of time in which every endpoint fails, wherever it begins.
type OutageWindow struct {
	Name    string `json:"name"`
	Seconds int    `json:"seconds"`
	// ByBreakers is endpoints * requests of one. ByRate is what limits.rate lets through; 0: it is not set. ByInFlight
	// is what limits.in_flight lets through if every receiver takes the request and never answers.
	ByBreakers     int `json:"by_breakers"`
	ByBreakersHard int `json:"by_breakers_hard"`
	ByRate         int `json:"by_rate,omitempty"`
	ByInFlight     int `json:"by_in_flight"`
	// Requests is the bound: the least of ByBreakers and ByRate. RequestsHung is that of receivers which hang.
	Requests     int `json:"requests"`
	RequestsHung int `json:"requests_hung"`
}

func outage(in Input, b Bound, l Load) Outage {
	o := Outage{
		WaitingPerHour: int(in.Rate * time.Hour.Seconds()),
		WaitingMost:    int(in.Rate * in.Policy.Lifetime.Seconds()),
		Failing:        in.failing(),
	}
	for _, w := range b.Windows {
		row := OutageWindow{Name: w.Name, Seconds: w.Seconds, ByBreakers: w.RequestsAny * in.Endpoints, ByBreakersHard: w.RequestsHard * in.Endpoints}
		hang := min(in.Deliver.HeaderTimeout, in.Deliver.Timeout).Seconds()
		row.ByInFlight = l.Processes * int(float64(in.Group.MaxInFlight)*(1+float64(w.Seconds)/hang))
		row.Requests = row.ByBreakers
		if r := in.Group.Rate; r > 0 {
			row.ByRate = l.Processes * int(r*float64(w.Seconds)+max(1, r/10))
			row.Requests = min(row.Requests, row.ByRate)
		}
		row.RequestsHung = min(row.Requests, row.ByBreakersHard, row.ByInFlight) // to hang is to fail hard
		o.Windows = append(o.Windows, row)
	}
	o.drawHolds(in)
	o.WritesFirstHour = o.WaitingPerHour * b.Windows[1].Rewrites
	o.WritesDrawn = int(float64(o.WaitingPerHour) * o.HoldsFirstHour / 2)
	o.FailingWaiting = int(in.Rate * in.Failing * in.Policy.Lifetime.Seconds())
	o.FailingWrites = perHour(float64(o.FailingWaiting) * o.HoldsLater)
	o.FailingRequests = perHour(float64(o.Failing) / in.Breaker.OpenMax.Hours())
	return o
}

// heldFor is how long a delivery is followed behind a breaker, and heldFrom from when on its endpoint counts as down for long.
const (
	heldFor  = 12 * time.Hour
	heldFrom = 2 * time.Hour
	heldRuns = 400
)

// drawHolds follows deliveries that wait behind an endpoint which does nothing but fail, and which others probe the
// moment it may be probed: the policy itself says until when each is held.
func (o *Outage) drawHolds(in Input) {
	rnd := rand.New(rand.NewPCG(in.Seed, 1)) //nolint:gosec // a repeatable draw, no secret
	o.TierShares = make([]float64, len(in.Policy.Tiers))
	start := time.Unix(0, 0).UTC()
	first, firstHours, later := 0, 0.0, 0
	writes := 0.0
	for range heldRuns {
		trips := 1
		until := start.Add(in.Breaker.OpenTime(trips, rnd.Float64()))
		arrived := start.Add(time.Duration(rnd.Float64() * float64(time.Hour)))
		firstHours += start.Add(time.Hour).Sub(arrived).Hours()
		for now := arrived; now.Before(start.Add(heldFor)); {
			for !until.After(now) {
				trips++
				until = until.Add(in.Breaker.OpenTime(trips, rnd.Float64()))
			}
			spread := max(in.Breaker.OpenFor, until.Sub(now)) // as the unit holds
			d := in.Policy.HoldUntil(now, retry.Spent{}, until, spread, "", rnd.Float64())
			switch age := now.Sub(start); {
			case age < time.Hour:
				first++
			case age >= heldFrom:
				later++
			}
			o.TierShares[in.Policy.TierFor(d.Due.Sub(now))]++
			writes++
			now = d.Due
		}
	}
	for i := range o.TierShares {
		o.TierShares[i] /= writes
	}
	o.HoldsFirstHour = float64(first) / firstHours
	o.HoldsLater = float64(later) / heldRuns / (heldFor - heldFrom).Hours()
}

// rewritesHung bounds how often a held delivery is written where each probe hangs until it is given up: what waits in the
// lane for its result is spilled whenever it is older than lanes.max_age, and comes back.
func rewritesHung(in Input, w Window) int {
	spills := func(wait time.Duration) int { return int(wait / in.Unit.LaneAge) }
	rounds := (in.Breaker.ConsecutiveAny + in.width() - 1) / in.width() // until it opens for the first time
	n := w.Rewrites + w.Rewrites*spills(in.Deliver.MaxTimeout) + spills(time.Duration(rounds)*in.Deliver.MaxTimeout)
	return min(n, w.RewritesShort) // a spill each lanes.max_age
}

// rewritesFull bounds it where the look-ahead of the tiers is full: what is due last goes round again after the wait
// that every record of its tier has behind it.
func rewritesFull(in Input, window time.Duration, rewrites int) int {
	longest := in.Breaker.OpenTime(longestOpening(in.Breaker), 1)
	n := rewrites * (1 + passes(in.Policy, 2*longest)) // an opening, and a spread as long
	return min(n, rewrites+int(window/in.Policy.Tiers[0])+1)
}

// passes is how often a wait may go round a tier that is full before it is over: each time for what every record of
// the tier waits at least. The first tier stands still instead.
func passes(p retry.Policy, wait time.Duration) int {
	n := 0
	for {
		floor := p.TierFloor(p.TierFor(wait))
		if floor == 0 {
			return n
		}
		n, wait = n+1, wait-floor
	}
}
