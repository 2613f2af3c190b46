package endpoint

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// What the registry says no with. The API maps each to a status.
var (
	// ErrNotFound: no such endpoint, or none of the caller's tenant.
	ErrNotFound = errors.New("endpoint: not found")
	// ErrIDTaken: the id belongs to another tenant, or was made for another URL.
	ErrIDTaken = errors.New("endpoint: the id is taken")
	// ErrLocked: this process cannot read the endpoint's present version or secrets, so it must not change it.
	ErrLocked = errors.New("endpoint: its present version cannot be read by this process")
	// ErrTooManySecrets: so many secrets are in their overlap that no further one is allowed.
	ErrTooManySecrets = errors.New("endpoint: too many active secrets")
	// ErrTooManyEndpoints: the deployment's or the tenant's limit is reached.
	ErrTooManyEndpoints = errors.New("endpoint: the limit of endpoints is reached")
	// ErrUnavailable: the change may not have been saved; the same call may be made again.
	ErrUnavailable = errors.New("endpoint: the change could not be saved now")
)

const (
	defaultWriteTimeout = 10 * time.Second
	defaultMaxEndpoints = 250_000
)

// Producer writes records. *kgo.Client is one.
type Producer interface {
	Produce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error))
}

// RegistryOptions is what a registry needs. All but the last four are required.
type RegistryOptions struct {
	// Table is where the present version is read and the own write is seen. It must run.
	Table *Table
	// Client produces. It must ask for acks from all in-sync replicas, franz-go's default.
	Client Producer
	// Topic is the name of the endpoints topic.
	Topic string
	// Sealer encrypts signing secrets.
	Sealer *Sealer
	// CheckURL says whether the deployment may send to a URL. Its error is shown to the caller.
	CheckURL func(url string) error
	// CheckHeaders says whether custom headers may be sent. Its error is shown to the caller.
	CheckHeaders func(headers []schemas.Header) error
	// Logger takes what is out of the ordinary. Nil: nothing is logged.
	Logger *slog.Logger
	// WriteTimeout bounds one write with its confirmation. 0: 10 s.
	WriteTimeout time.Duration
	// MaxEndpoints bounds how many endpoints there may be, over all tenants. 0: 250,000.
	MaxEndpoints int
	// MaxPerTenant bounds how many endpoints one tenant may have, also by sending to raw URLs. 0: MaxEndpoints.
	MaxPerTenant int
}

// Registry changes endpoints. Safe for concurrent use.
//
// Every operation but Put, List and Get takes a scope: the tenant that asks, or empty for whoever may touch all.
// What belongs to another tenant is ErrNotFound. Errors are the sentinels above or a *InvalidError, wrapped at most.
//
// A change is on all replicas and visible in this process's table when it returns; other processes see it a moment
// later. Within a process, changes of one id wait for one another. Between processes they may cross: then the one
// that comes later in the log finds, once its table shows it, what it has overwritten without having read, and is
// made again on top of that. In between, for some milliseconds, the earlier change is not in effect; if the process
// dies just then, it is lost. That is the price of a log without compare-and-swap.
type Registry struct {
	opts   RegistryOptions
	log    *slog.Logger
	locks  stripes
	writes writes
}

// NewRegistry makes a registry. It starts nothing.
func NewRegistry(opts RegistryOptions) *Registry {
	if opts.WriteTimeout <= 0 {
		opts.WriteTimeout = defaultWriteTimeout
	}
	if opts.MaxEndpoints <= 0 {
		opts.MaxEndpoints = defaultMaxEndpoints
	}
	if opts.MaxPerTenant <= 0 {
		opts.MaxPerTenant = opts.MaxEndpoints
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Registry{opts: opts, log: log, locks: newStripes(), writes: newWrites()}
}

// Saved is what Put or RotateSecret came to.
type Saved struct {
	Endpoint *Endpoint
	Created  bool
	// Secret is the new signing secret when one was minted or taken: to be shown now and never again.
	Secret secret.String
}

// Put creates or replaces an endpoint.
func (r *Registry) Put(ctx context.Context, scope string, s Settings) (Saved, error) {
	if scope != "" {
		if s.Tenant != "" && s.Tenant != scope {
			return Saved{}, &InvalidError{Problems: []Problem{{Field: "tenant", Reason: "is not yours"}}}
		}
		s.Tenant = scope
	}
	key, err := r.validate(&s)
	if err != nil {
		return Saved{}, err
	}
	id := s.ID
	if id == "" {
		id = mintID()
	}
	var saved Saved
	saved.Endpoint, err = r.change(ctx, id, func(cur *Endpoint, now time.Time) (*schemas.Endpoint, error) {
		saved.Created, saved.Secret = cur == nil, ""
		if cur != nil && (s.MustBeNew || s.Tenant != "" && cur.Tenant != s.Tenant) {
			return nil, ErrIDTaken
		}
		next := s.merge(cur, id, now)
		if cur == nil && r.full(next.Tenant) {
			return nil, ErrTooManyEndpoints
		}
		var err error
		saved.Secret, err = r.secretsFor(&next, cur, key, now)
		return &next, err
	})
	if err != nil {
		return Saved{}, err
	}
	return saved, nil
}

// full says whether no further endpoint of a tenant is taken. Changes at the same time may pass the limit by one each:
// it bounds memory, to the endpoint it need not.
func (r *Registry) full(tenant string) bool {
	t := r.opts.Table
	return t.Stats().Endpoints >= r.opts.MaxEndpoints || t.Count(tenant) >= r.opts.MaxPerTenant
}

// EnsureForURL returns the endpoint that a tenant's raw URL stands for, and registers it on first use. Its id derives
// from both, so that all processes name it the same. The secret is minted; rotate to learn one.
func (r *Registry) EnsureForURL(ctx context.Context, tenant, url string) (*Endpoint, error) {
	if tenant == "" {
		tenant = DefaultTenant
	}
	id := IDForURL(tenant, url)
	ep, ok := r.opts.Table.Get(id)
	if !ok {
		saved, err := r.Put(ctx, tenant, Settings{ID: id, URL: url})
		if err != nil {
			return nil, err
		}
		ep = saved.Endpoint
	}
	// Someone may have given the endpoint another URL, which this call did not ask for.
	if ep.Locked == nil && (ep.URL != url || ep.Tenant != tenant) {
		return nil, ErrIDTaken
	}
	return ep, nil
}

// IDForURL is the id under which EnsureForURL registers a tenant's URL.
func IDForURL(tenant, url string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + url)) // a tenant's name has no NUL
	return "ep_" + lowerBase32(sum[:16])
}

// Get returns an endpoint. The error is ErrNotFound.
func (r *Registry) Get(scope, id string) (*Endpoint, error) {
	ep, ok := r.opts.Table.Get(id)
	if !ok || !visible(ep, scope) {
		return nil, ErrNotFound
	}
	return ep, nil
}

// List returns at most limit endpoints of the scope with ids above after, in the order of ids.
func (r *Registry) List(scope, after string, limit int) []*Endpoint {
	return r.opts.Table.List(scope, after, limit)
}

// Delete removes an endpoint. What still waits for it becomes dead letters.
func (r *Registry) Delete(ctx context.Context, scope, id string) error {
	_, err := r.change(ctx, id, func(cur *Endpoint, _ time.Time) (*schemas.Endpoint, error) {
		if cur == nil || !visible(cur, scope) {
			return nil, ErrNotFound
		}
		return nil, nil
	})
	return err
}

// SetState enables or disables an endpoint and changes nothing else. The reason is kept with a disabled one: at most
// MaxReasonBytes of plain text.
func (r *Registry) SetState(
	ctx context.Context, scope, id string, state schemas.EndpointState, reason string,
) (*Endpoint, error) {
	var c check
	c.that(len(reason) <= MaxReasonBytes && plainText(reason),
		"reason", "must be at most %d bytes of plain text", MaxReasonBytes)
	c.that(state == schemas.EndpointEnabled || state == schemas.EndpointDisabled, "state", "is unknown")
	if err := c.err(); err != nil {
		return nil, err
	}
	return r.change(ctx, id, func(cur *Endpoint, now time.Time) (*schemas.Endpoint, error) {
		if cur == nil || !visible(cur, scope) {
			return nil, ErrNotFound
		}
		if cur.State == state {
			return nil, errUnchanged
		}
		return withState(cur, state, reason, now)
	})
}

// ResetBreaker says that an endpoint is well again: its breaker is closed wherever it is, its failures are counted
// from zero, and its configuration stays as it is. Enabling a disabled endpoint does the same.
func (r *Registry) ResetBreaker(ctx context.Context, scope, id string) (*Endpoint, error) {
	return r.change(ctx, id, func(cur *Endpoint, now time.Time) (*schemas.Endpoint, error) {
		if cur == nil || !visible(cur, scope) {
			return nil, ErrNotFound
		}
		if isUndecodable(cur) {
			return nil, ErrLocked
		}
		next := cur.Endpoint
		next.UpdatedAt, next.BreakerResetAt = now, now
		return &next, nil
	})
}

// Disable is what the processor does on 410: the endpoint is disabled if it exists and is enabled, and nothing else
// of it changes, whoever changes it at the same time. seen is the version that the attempt used: when the endpoint
// was changed since, its answer says nothing of what is there now, and nothing happens.
func (r *Registry) Disable(ctx context.Context, seen *Endpoint, reason string) error {
	disabled := false
	_, err := r.change(ctx, seen.ID, func(cur *Endpoint, now time.Time) (*schemas.Endpoint, error) {
		disabled = false
		if cur == nil || !cur.Enabled() || !cur.UpdatedAt.Equal(seen.UpdatedAt) {
			return nil, errUnchanged
		}
		disabled = true
		return withState(cur, schemas.EndpointDisabled, reason, now)
	})
	if err == nil && disabled { // nobody asked for it: somebody should know
		r.log.Warn("endpoint disabled", obs.KeyEndpointID, seen.ID, obs.KeyReason, reason)
	}
	return err
}

func withState(cur *Endpoint, state schemas.EndpointState, reason string, now time.Time) (*schemas.Endpoint, error) {
	if isUndecodable(cur) {
		return nil, ErrLocked
	}
	next := cur.Endpoint
	next.State, next.DisabledReason, next.UpdatedAt = state, "", now
	if state == schemas.EndpointDisabled {
		next.DisabledReason = reason
	} else {
		next.BreakerResetAt = now // whoever enables it says that it is well (C-104)
	}
	return &next, nil
}

func visible(ep *Endpoint, scope string) bool { return scope == "" || ep.Tenant == scope }

// isUndecodable says that nothing but the id is known of an endpoint, so that no next version can be made of it.
func isUndecodable(ep *Endpoint) bool {
	return ep != nil && ep.Locked != nil && !errors.Is(ep.Locked, ErrUnseal)
}

func mintID() string { return "ep_" + randomName() }

// randomName is 128 random bits as 26 lower-case letters and digits.
func randomName() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return lowerBase32(b[:])
}

func lowerBase32(b []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// unavailable wraps what kept a change from being saved.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }
