package breaker

import "github.com/barnabas-webhooks/barnabas/retry"

// weight is what a class means for the endpoint's health.
type weight uint8

const (
	uncharged weight = iota
	success
	soft
	hard
)

// weigh sorts the classes. One that is not known is a soft failure: it was an answer, and not a success.
func weigh(c retry.Class) weight {
	switch c {
	case retry.OK:
		return success
	case retry.DNS, retry.Connect, retry.TLS, retry.Timeout, retry.Reset, retry.HTTP5xx, retry.HTTP429:
		return hard
	case retry.Cancelled, retry.Blocked, retry.Build:
		return uncharged
	case retry.HTTP3xx, retry.HTTP4xx, retry.Gone, retry.InvalidResponse:
		return soft
	}
	return soft
}
