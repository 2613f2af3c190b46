package plan

import (
	"math/rand/v2"
	"time"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// Schedule is the course of a delivery that never succeeds.
type Schedule struct {
	Attempts             int     `json:"attempts"`
	Retries              []Retry `json:"retries"`
	MeanSeconds          float64 `json:"mean_seconds"`
	MaxSeconds           float64 `json:"max_seconds"`
	LifetimeSeconds      float64 `json:"lifetime_seconds"`
	MaxRetryAfterSeconds float64 `json:"max_retry_after_seconds"`
	// What came of drawing it: Ladders deliveries, the mean of their lengths, and the share
	// that ended by the lifetime.
	Ladders          int     `json:"ladders"`
	DrawnMeanSeconds float64 `json:"drawn_mean_seconds"`
	DrawnMaxSeconds  float64 `json:"drawn_max_seconds"`
	ExpiredShare     float64 `json:"expired_share"`
}

// Retry is one retry: its wait is uniform in (0, MaxSeconds].
type Retry struct {
	Number            int     `json:"number"`
	MeanSeconds       float64 `json:"mean_seconds"`
	MaxSeconds        float64 `json:"max_seconds"`
	CumulativeMean    float64 `json:"cumulative_mean_seconds"`
	CumulativeMax     float64 `json:"cumulative_max_seconds"`
	LongestTier       float64 `json:"longest_tier_seconds"` // where the longest wait goes; shorter ones into shorter tiers
	DrawnMinSeconds   float64 `json:"drawn_min_seconds"`
	DrawnMeanSeconds  float64 `json:"drawn_mean_seconds"`
	DrawnMaxSeconds   float64 `json:"drawn_max_seconds"`
	DrawnReachedShare float64 `json:"drawn_reached_share"` // of all deliveries, those that made this retry
}

func schedule(in Input) Schedule {
	p := in.Policy
	s := Schedule{
		Attempts:             p.MaxAttempts(),
		MeanSeconds:          p.TotalMean().Seconds(),
		MaxSeconds:           p.TotalMax().Seconds(),
		LifetimeSeconds:      p.Lifetime.Seconds(),
		MaxRetryAfterSeconds: p.MaxRetryAfter.Seconds(),
		Ladders:              in.Ladders,
	}
	if s.Ladders == 0 {
		s.Ladders = defaultLadders
	}
	var mean, most float64
	for i, limit := range p.Caps {
		mean, most = mean+limit.Seconds()/2, most+limit.Seconds()
		s.Retries = append(s.Retries, Retry{
			Number: i + 1, MeanSeconds: limit.Seconds() / 2, MaxSeconds: limit.Seconds(),
			CumulativeMean: mean, CumulativeMax: most,
			LongestTier: p.Tiers[p.TierFor(limit)].Seconds(),
		})
	}
	s.draw(p, rand.New(rand.NewPCG(in.Seed, 0))) //nolint:gosec // a repeatable draw, no secret
	return s
}

// draw lets deliveries fail until they are dead, and notes what the policy decided.
func (s *Schedule) draw(p retry.Policy, rnd *rand.Rand) {
	start := time.Unix(0, 0).UTC()
	failed := retry.Outcome{Class: retry.Connect}
	counts := make([]int, len(s.Retries))
	for range s.Ladders {
		now := start
		for attempts := 1; ; attempts++ {
			d := p.Decide(now, retry.Spent{Attempts: attempts, RunStartedAt: start}, failed, nil, nil, rnd.Float64())
			if d.Kind != retry.Retry {
				if d.Reason == retry.ReasonExpired {
					s.ExpiredShare += 1 / float64(s.Ladders)
				}
				break
			}
			wait, r := d.Due.Sub(now).Seconds(), &s.Retries[attempts-1]
			if counts[attempts-1] == 0 || wait < r.DrawnMinSeconds {
				r.DrawnMinSeconds = wait
			}
			r.DrawnMaxSeconds = max(r.DrawnMaxSeconds, wait)
			r.DrawnMeanSeconds += wait // the sum, for now
			counts[attempts-1]++
			now = d.Due
		}
		s.DrawnMeanSeconds += now.Sub(start).Seconds() / float64(s.Ladders)
		s.DrawnMaxSeconds = max(s.DrawnMaxSeconds, now.Sub(start).Seconds())
	}
	for i, n := range counts {
		s.Retries[i].DrawnReachedShare = float64(n) / float64(s.Ladders)
		if n > 0 {
			s.Retries[i].DrawnMeanSeconds /= float64(n)
		}
	}
}
