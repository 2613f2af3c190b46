package endpoint

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/sign"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// Limits of what may be saved.
const (
	MaxURLBytes         = 8 << 10
	MaxDescriptionBytes = 1 << 10
	MaxReasonBytes      = 256
	MaxPermanent        = 64               // statuses in the list of permanent ones
	MaxRetryCaps        = 16               // waits of an own schedule
	MaxRetryCap         = 24 * time.Hour   // of each of them
	MaxInFlightLimit    = 1000             // requests at a time
	MaxRate             = 100_000          // requests per second
	MaxTimeout          = 30 * time.Second // of one attempt
)

// ReasonOperator is why an endpoint is disabled when whoever did it gave no reason.
const ReasonOperator = "by operator"

// DefaultTenant owns what is saved by someone who belongs to no tenant and names none.
const DefaultTenant = "default"

var (
	idPattern     = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
	tenantPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// ValidID says whether a text may be an endpoint's id: 1 to 128 of the characters A-Z a-z 0-9 . _ : - and not "." or
// "..", which no path of the API could name.
func ValidID(id string) bool { return idPattern.MatchString(id) && strings.Trim(id, ".") != "" }

// ValidTenant says whether a text may be a tenant's name: 1 to 64 of the characters A-Z a-z 0-9 . _ -
func ValidTenant(name string) bool { return tenantPattern.MatchString(name) }

// Settings are what a caller may set of an endpoint. They replace the previous ones as a whole, but for the tenant,
// the state and the secrets, which stay when they are empty here.
type Settings struct {
	// ID names the endpoint; empty: one is minted ("ep_...").
	ID string
	// Tenant owns it; empty: the present owner, or DefaultTenant. The owner of an endpoint never changes.
	Tenant      string
	URL         string
	Description string
	Headers     []schemas.Header
	// State is enabled or disabled; empty: as it is, or enabled.
	State schemas.EndpointState
	// Order is ordered, parallel or strict; empty: ordered.
	Order             schemas.Order
	MaxInFlight       int             // 0: the deployment's default; at most MaxInFlightLimit
	RatePerSecond     float64         // 0: unlimited; at most MaxRate
	Timeout           time.Duration   // 0: the deployment's default; at most MaxTimeout
	PermanentStatuses []int           // each in 300..599
	RetryCaps         []time.Duration // empty: the deployment's schedule
	// Secret is a signing secret of the caller's own ("whsec_..."). It replaces the present ones at once, unless it
	// is the newest already; rotate for an overlap. Empty: the present ones stay, or one is minted.
	Secret secret.String
	// MustBeNew refuses to replace a present endpoint, with ErrIDTaken.
	MustBeNew bool
}

// InvalidError lists everything that is wrong with what was to be saved. Its text may be shown to the caller:
// it repeats no value.
type InvalidError struct{ Problems []Problem }

// Problem is one thing wrong with one field, the latter named as in the API's JSON.
type Problem struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.Field + ": " + p.Reason
	}
	return "invalid endpoint: " + strings.Join(parts, "; ")
}

// check collects problems.
type check struct{ problems []Problem }

func (c *check) add(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{Field: field, Reason: fmt.Sprintf(format, args...)})
}

func (c *check) that(ok bool, field, format string, args ...any) {
	if !ok {
		c.add(field, format, args...)
	}
}

func (c *check) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	return &InvalidError{Problems: c.problems}
}

// validate checks everything that needs no look at the present version; the rules for URLs and headers are the
// deployment's and come as functions. It returns the key bytes of s.Secret.
func (r *Registry) validate(s *Settings) (key []byte, err error) {
	var c check
	c.that(s.ID == "" || ValidID(s.ID), "id", "must be 1 to 128 of A-Z a-z 0-9 . _ : -")
	c.that(s.Tenant == "" || ValidTenant(s.Tenant), "tenant", "must be 1 to 64 of A-Z a-z 0-9 . _ -")
	switch {
	case s.URL == "":
		c.add("url", "is missing")
	case len(s.URL) > MaxURLBytes:
		c.add("url", "is %d bytes; at most %d", len(s.URL), MaxURLBytes)
	default:
		if err := r.opts.CheckURL(s.URL); err != nil {
			c.add("url", "%v", err)
		}
	}
	c.that(len(s.Description) <= MaxDescriptionBytes,
		"description", "is %d bytes; at most %d", len(s.Description), MaxDescriptionBytes)
	c.that(plainText(s.Description), "description", "must be UTF-8 without control characters")
	if err := r.opts.CheckHeaders(s.Headers); err != nil {
		c.add("headers", "%v", err)
	}
	switch s.State {
	case "", schemas.EndpointEnabled, schemas.EndpointDisabled:
	default:
		c.add("state", "must be %q or %q", schemas.EndpointEnabled, schemas.EndpointDisabled)
	}
	switch s.Order {
	case "", schemas.OrderOrdered, schemas.OrderParallel, schemas.OrderStrict:
	default:
		c.add("order", "must be %q, %q or %q", schemas.OrderOrdered, schemas.OrderParallel, schemas.OrderStrict)
	}
	c.that(s.MaxInFlight >= 0 && s.MaxInFlight <= MaxInFlightLimit, "max_in_flight", "must be 0 to %d", MaxInFlightLimit)
	c.that(s.RatePerSecond >= 0 && s.RatePerSecond <= MaxRate && !math.IsNaN(s.RatePerSecond),
		"rate_per_second", "must be 0 (unlimited) to %d", MaxRate)
	c.that(s.Timeout >= 0 && s.Timeout <= MaxTimeout, "timeout", "must be 0 (the default) to %s", MaxTimeout)
	c.that(len(s.PermanentStatuses) <= MaxPermanent,
		"permanent_statuses", "has %d entries; at most %d", len(s.PermanentStatuses), MaxPermanent)
	for _, code := range s.PermanentStatuses {
		// 2xx is success and 1xx never the answer: a list with either is a mistake.
		if code < 300 || code > 599 {
			c.add("permanent_statuses", "%d is not in 300..599", code)
			break
		}
	}
	c.that(len(s.RetryCaps) <= MaxRetryCaps, "retry_caps", "has %d entries; at most %d", len(s.RetryCaps), MaxRetryCaps)
	for _, d := range s.RetryCaps {
		if d <= 0 || d > MaxRetryCap {
			c.add("retry_caps", "%s is not above 0 and at most %s", d, MaxRetryCap)
			break
		}
	}
	if s.Secret != "" {
		if key, err = sign.ParseSecret(s.Secret.Reveal()); err != nil {
			c.add("secret", "%v", err)
		}
	}
	return key, c.err()
}

// plainText says whether a text is UTF-8 without control characters, so that it can be printed anywhere.
func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// merge makes the next version of an endpoint of the settings and the present version (nil: none), all but secrets.
func (s *Settings) merge(cur *Endpoint, id string, now time.Time) schemas.Endpoint {
	next := schemas.Endpoint{
		ID: id, Tenant: s.Tenant, URL: s.URL, Description: s.Description,
		Headers: slices.Clone(s.Headers), State: s.State, Order: s.Order,
		MaxInFlight: s.MaxInFlight, RatePerSecond: s.RatePerSecond, Timeout: s.Timeout,
		PermanentStatuses: slices.Clone(s.PermanentStatuses), RetryCaps: slices.Clone(s.RetryCaps),
		CreatedAt: now, UpdatedAt: now,
	}
	if next.Order == "" {
		next.Order = schemas.OrderOrdered
	}
	if cur != nil {
		next.CreatedAt, next.Tenant, next.BreakerResetAt = cur.CreatedAt, cur.Tenant, cur.BreakerResetAt
		if next.State == "" {
			next.State = cur.State
		}
		if next.State == cur.State {
			next.DisabledReason = cur.DisabledReason
		}
		if next.State == schemas.EndpointEnabled && !cur.Enabled() {
			next.BreakerResetAt = now // as SetState does: whoever enables it says that it is well (C-104)
		}
	}
	if next.Tenant == "" {
		next.Tenant = DefaultTenant
	}
	if next.State == "" {
		next.State = schemas.EndpointEnabled
	}
	if next.State == schemas.EndpointDisabled && next.DisabledReason == "" {
		next.DisabledReason = ReasonOperator
	}
	return next
}
