package unit

import (
	"context"
	"log/slog"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/processor/caps"
	"github.com/barnabas-webhooks/barnabas/processor/deliver"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/processor/settle"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// Sender makes attempts.
type Sender interface {
	Attempt(ctx context.Context, r deliver.Request) deliver.Result
}

// Endpoints is the table of current configuration.
type Endpoints interface {
	Get(id string) (*endpoint.Endpoint, bool)
	Deleted(id string) bool
}

// Journal appends facts to the compacted topics, outside any transaction.
// Neither call blocks; partition is the unit's number.
type Journal interface {
	// AppendClaim calls done once, from any goroutine, when the claim is durable, with where
	// it lies; it goes on trying until then, or until the process ends.
	AppendClaim(partition int32, c *schemas.Claim, done func(offset int64))
	AppendBreaker(partition int32, t *schemas.BreakerTransition)
}

// Claims reads what others have written to the unit's partition of the claims, and ends a unit whose own
// cannot be read. Neither call blocks.
type Claims interface {
	// ReadGap reads the offsets from ... to-1, or the first of them, and calls done from any goroutine. It goes on
	// trying until then, or until the unit is gone.
	ReadGap(owner settle.Owner, from, to int64, done func(claims []schemas.Claim, upTo int64))
	// Failed says that a unit has ended because of an error of its store.
	Failed(owner settle.Owner, err error)
}

// Settler is asked to settle: at its next beat, or sooner.
type Settler interface {
	Want(source settle.Source)
	Hurry()
}

// Intake pauses and resumes fetching of single partitions.
type Intake interface {
	Pause(topic string, partition int32)
	Resume(topic string, partition int32)
}

// Lease says whether the units are still this process's for all that is known
// here. If not, again is called, once, from some goroutine, when they are.
type Lease interface {
	Held(again func()) bool
}

// Shared is what all units of a process use together.
type Shared struct {
	Config
	Catalogue topics.Catalogue
	Policy    retry.Policy
	Breaker   breaker.Config
	Sender    Sender
	Endpoints Endpoints
	// Disable switches an endpoint off that answered 410, unless it has been changed
	// since it was seen. It must not block.
	Disable func(seen *endpoint.Endpoint, reason string)
	Journal Journal
	Claims  Claims
	Settler Settler
	Intake  Intake
	// FetchWait is how long a fetch that finds nothing waits at the broker.
	FetchWait time.Duration
	Lease     Lease
	InFlight  *caps.InFlight
	Workers   *caps.Workers // on which requests are made
	Rate      *caps.Rate    // nil: no bound
	Memory    *caps.Memory
	Rand      func() float64 // uniform in [0, 1); safe for concurrent use
	Log       *slog.Logger
	Quiet     *slog.Logger // Log, for what repeats: a few lines per minute and cause (C-236)
	Metrics   *metrics.Metrics
}
