package caps

import (
	"time"

	"golang.org/x/time/rate"
)

// Rate bounds the requests of the whole process per second. A nil Rate does not.
type Rate struct {
	limiter *rate.Limiter
}

// NewRate allows perSecond requests, evenly spread but for a tenth of a second's
// worth at once; 0 gives nil, no bound.
func NewRate(perSecond float64) *Rate {
	if perSecond <= 0 {
		return nil
	}
	return &Rate{rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond/10)))}
}

// Take takes leave for one request, or says how long until there may be one. Leave
// that is not used is given back with giveBack.
func (r *Rate) Take(now time.Time) (giveBack func(), wait time.Duration) {
	if r == nil {
		return func() {}, 0
	}
	taken := r.limiter.ReserveN(now, 1)
	if wait = taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
		return func() {}, wait
	}
	return func() { taken.CancelAt(now) }, 0
}
