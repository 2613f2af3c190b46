package retry_test

import (
	"fmt"
	"time"

	"github.com/barnabas-webhooks/barnabas/retry"
)

// A receiver is overloaded and asks for two minutes; then it breaks for good.
func ExamplePolicy_Decide() {
	p := retry.DefaultPolicy()
	accepted := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	busy := retry.Outcome{Class: retry.HTTP429, Status: 429, RetryAfter: 2 * time.Minute}
	d := p.Decide(accepted, retry.Spent{Attempts: 1, RunStartedAt: accepted}, busy, nil, nil, 0.5)
	wait := d.Due.Sub(accepted)
	fmt.Println(d.Kind, "in", wait, "through tier", p.Tiers[p.TierFor(wait)], "- endpoint paused for", d.PauseEndpoint)

	broken := retry.Outcome{Class: retry.HTTP5xx, Status: 500}
	d = p.Decide(accepted.Add(20*time.Hour), retry.Spent{Attempts: 9, RunStartedAt: accepted}, broken, nil, nil, 0.5)
	fmt.Println(d.Kind, "because of", d.Reason)
	// Output:
	// retry in 2m0s through tier 10m0s - endpoint paused for 2m0s
	// dead because of http_5xx
}
