package processor

import (
	"errors"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/facts"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/processor/unit"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Claims keeps what the arbiters of all units remember.
type Claims interface {
	facts.Claims
	// Renew throws everything away, after a failure.
	Renew() error
	Stats() claim.Stats
}

var _ unit.Claims = (*ownership)(nil)

// Failed implements unit.Claims. All units share one store: they are dropped, and restored
// into another one when they have been assigned anew.
func (o *ownership) Failed(owner settle.Owner, err error) {
	if u := o.unit(owner.Unit); u == nil || u.Owner() != owner {
		return // not the owner any more: the store was taken from it
	}
	if !errors.Is(err, claim.ErrClosed) {
		o.spoiled.Store(true)
	}
	numbers := o.dropAll(unit.ErrClaims)
	o.shared.Log.Error("the claims on disk failed: units are dropped, and restored from the topic", obs.KeyUnits, numbers, obs.KeyError, err)
}

// ReadGap implements unit.Claims.
func (o *ownership) ReadGap(owner settle.Owner, from, to int64, done func([]schemas.Claim, int64)) {
	go func() {
		for wait := time.Second; ; wait = min(2*wait, time.Minute) {
			claims, upTo, err := o.restorer.Gap(o.life, owner.Unit, from, to)
			if err == nil {
				o.shared.Log.Info("claims of another owner were read", obs.KeyUnit, owner.Unit, obs.KeyFrom, from, obs.KeyTo, upTo, obs.KeyCount, len(claims))
				done(claims, upTo)
				return
			}
			if u := o.unit(owner.Unit); o.life.Err() != nil || u == nil || u.Owner() != owner {
				return
			}
			o.shared.Log.Warn("claims of another owner are not read yet", obs.KeyUnit, owner.Unit, obs.KeyWait, wait, obs.KeyError, err)
			select {
			case <-o.life.Done():
			case <-time.After(wait):
			}
		}
	}()
}
