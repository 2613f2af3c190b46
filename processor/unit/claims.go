package unit

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// ErrClaims is the cause with which attempts are cut off when the claims cannot be read.
var ErrClaims = errors.New("unit: its claims cannot be read")

// judge gets the arbiter's verdict on a keyed event, and publishes it.
func (u *Unit) judge(it *item, r *kgo.Record, event *schemas.Event, now time.Time) {
	d := it.delivery
	question := claim.Question{
		EndpointID: d.EndpointID, Key: d.IdempotencyKey, DeliveryID: d.ID,
		ContentHash: schemas.ContentHash(event), Offset: r.Offset, At: r.Timestamp,
	}
	began := time.Now()
	c, err := u.arbiter.Judge(question)
	if err != nil {
		u.fail(err)
		return
	}
	u.Metrics.JudgeSeconds.Observe(time.Since(began).Seconds())
	u.Metrics.Events.WithLabelValues(string(c.Verdict)).Inc()
	it.claiming = true
	u.Journal.AppendClaim(u.owner.Unit, &c, func(offset int64) {
		u.inbox.put(func() {
			it.claiming = false
			u.covered(offset, offset+1)
		})
	})
	if c.Verdict != schemas.VerdictFirst {
		u.refuse(it, &c, now)
		return
	}
	u.lineUpAtEnd(it, r, now)
	u.join(it, now)
}

// covered notes which records of the claims' log the arbiter knows, and has those read that
// somebody else wrote in between: an owner before this one, that did not know it yet.
func (u *Unit) covered(from, to int64) {
	if u.phase == ended {
		return
	}
	if err := u.arbiter.Covered(from, to); err != nil {
		u.fail(err)
		return
	}
	from, to, ok := u.arbiter.Gap()
	if !ok || u.filling {
		return
	}
	u.filling = true
	u.Claims.ReadGap(u.owner, from, to, func(claims []schemas.Claim, upTo int64) {
		u.inbox.put(func() { u.fill(claims, from, upTo) })
	})
}

// fill takes the claims of a gap.
func (u *Unit) fill(claims []schemas.Claim, from, to int64) {
	u.filling = false
	if u.phase == ended {
		return
	}
	for i := range claims {
		if err := u.arbiter.Restore(&claims[i]); err != nil {
			u.fail(err)
			return
		}
	}
	u.covered(from, to)
}

// fail ends the unit: what cannot be seen is not judged by guess, and what was judged
// and is not settled is judged again by the next owner.
func (u *Unit) fail(err error) {
	u.Log.Error("claims cannot be read, the unit ends", obs.KeyUnit, u.owner.Unit, obs.KeyError, err)
	u.cutOff(ErrClaims)
	u.phase = ended
	u.Claims.Failed(u.owner, err)
}
