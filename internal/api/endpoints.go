package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// hidden stands for the value of a custom header in answers; in a request it means "as it is". Custom headers
	// often hold credentials.
	hidden = "***"
)

// Duration is a time.Duration in the API's JSON: a string such as "15s" or "1h30m".
type Duration time.Duration

// MarshalText writes Go's form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads Go's form; a number without unit is refused.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return badRequest("A duration is a string with a unit, such as \"15s\" or \"1h30m\".")
	}
	*d = Duration(v)
	return nil
}

// EndpointSpec is the body of PUT /v1/endpoints/{id} and POST /v1/endpoints. It replaces all settings, but for tenant,
// state and secret, which stay as they are when left out.
type EndpointSpec struct {
	ID          string `json:"id,omitempty"` // POST only; left out: minted
	Tenant      string `json:"tenant,omitempty"`
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
	// Headers are custom request headers. A value of *** keeps the present one.
	Headers           map[string]string `json:"headers,omitempty"`
	State             string            `json:"state,omitempty"` // enabled or disabled
	Order             string            `json:"order,omitempty"` // ordered (default), parallel or strict
	MaxInFlight       int               `json:"max_in_flight,omitempty"`
	RatePerSecond     float64           `json:"rate_per_second,omitempty"`
	Timeout           Duration          `json:"timeout,omitempty"`
	PermanentStatuses []int             `json:"permanent_statuses,omitempty"`
	RetryCaps         []Duration        `json:"retry_caps,omitempty"`
	Secret            string            `json:"secret,omitempty"` // whsec_...; left out: minted when there is none
}

// Endpoint is an endpoint in the API's answers.
type Endpoint struct {
	ID                string            `json:"id"`
	Tenant            string            `json:"tenant"`
	URL               string            `json:"url"`
	Description       string            `json:"description,omitempty"`
	Headers           map[string]string `json:"headers,omitempty"` // values are ***
	State             string            `json:"state"`
	DisabledReason    string            `json:"disabled_reason,omitempty"`
	Order             string            `json:"order"`
	MaxInFlight       int               `json:"max_in_flight,omitempty"`
	RatePerSecond     float64           `json:"rate_per_second,omitempty"`
	Timeout           Duration          `json:"timeout,omitempty"`
	PermanentStatuses []int             `json:"permanent_statuses,omitempty"`
	RetryCaps         []Duration        `json:"retry_caps,omitempty"`
	Secrets           []SecretInfo      `json:"secrets"` // without the secrets
	CreatedAt         time.Time         `json:"created_at"`
	UpdatedAt         time.Time         `json:"updated_at"`
	// Secret is the new signing secret: only in the answer that creates or rotates it, and never again.
	Secret string `json:"secret,omitempty"`
	// Unusable says that this server cannot use the endpoint: its deliveries wait.
	Unusable string `json:"unusable,omitempty"`
}

// SecretInfo tells a secret from others without showing it.
type SecretInfo struct {
	ID        string     `json:"id"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // none: the current one
}

// EndpointPage is the answer of GET /v1/endpoints.
type EndpointPage struct {
	Endpoints []Endpoint `json:"endpoints"`
	Next      string     `json:"next,omitempty"` // ask for ?after= it; none: this was the last page
}

// RotateSpec is the body of POST /v1/endpoints/{id}/rotate-secret, which may be left out.
type RotateSpec struct {
	Overlap *Duration `json:"overlap,omitempty"` // left out: 24h
	Secret  string    `json:"secret,omitempty"`  // left out: minted
}

// DisableSpec is the body of POST /v1/endpoints/{id}/disable, which may be left out.
type DisableSpec struct {
	Reason string `json:"reason,omitempty"`
}

func show(ep *endpoint.Endpoint, secret secret.String) Endpoint {
	out := Endpoint{
		ID: ep.ID, Tenant: ep.Tenant, URL: ep.URL, Description: ep.Description,
		State: string(ep.State), DisabledReason: ep.DisabledReason, Order: string(ep.Order),
		MaxInFlight: ep.MaxInFlight, RatePerSecond: ep.RatePerSecond, Timeout: Duration(ep.Timeout),
		PermanentStatuses: ep.PermanentStatuses, RetryCaps: convert[Duration](ep.RetryCaps),
		CreatedAt: ep.CreatedAt.UTC(), UpdatedAt: ep.UpdatedAt.UTC(),
		Secrets: []SecretInfo{}, Secret: secret.Reveal(),
	}
	if len(ep.Headers) > 0 {
		out.Headers = make(map[string]string, len(ep.Headers))
		for _, h := range ep.Headers {
			out.Headers[h.Key] = hidden
		}
	}
	for _, s := range ep.Secrets {
		out.Secrets = append(out.Secrets, SecretInfo{ID: s.ID, CreatedAt: s.CreatedAt.UTC(), ExpiresAt: timeOrNil(s.ExpiresAt)})
	}
	if ep.Locked != nil {
		out.Unusable = "this server cannot read its secrets or its version; deliveries wait"
	}
	return out
}

func convert[To, From ~int64](in []From) []To {
	if len(in) == 0 {
		return nil
	}
	out := make([]To, len(in))
	for i, v := range in {
		out[i] = To(v)
	}
	return out
}

// settings makes the registry's form of a spec.
func (a *API) settings(s *EndpointSpec, who principal) (endpoint.Settings, error) {
	out := endpoint.Settings{
		ID: s.ID, Tenant: s.Tenant, URL: s.URL, Description: s.Description,
		State: schemas.EndpointState(s.State), Order: schemas.Order(s.Order),
		MaxInFlight: s.MaxInFlight, RatePerSecond: s.RatePerSecond, Timeout: time.Duration(s.Timeout),
		PermanentStatuses: s.PermanentStatuses, RetryCaps: convert[time.Duration](s.RetryCaps),
		Secret: secret.String(s.Secret),
	}
	present := map[string][]byte{}
	if ep, err := a.opts.Endpoints.Get(who.scope, s.ID); err == nil {
		for _, h := range ep.Headers {
			present[strings.ToLower(h.Key)] = h.Value
		}
	}
	for name, value := range s.Headers {
		h := schemas.Header{Key: name, Value: []byte(value)}
		if value == hidden {
			old, ok := present[strings.ToLower(name)]
			if !ok {
				return out, &endpoint.InvalidError{Problems: []endpoint.Problem{{
					Field: "headers", Reason: "*** stands for a present value, and there is none",
				}}}
			}
			h.Value = old
		}
		out.Headers = append(out.Headers, h)
	}
	slices.SortFunc(out.Headers, func(x, y schemas.Header) int { return strings.Compare(x.Key, y.Key) })
	return out, nil
}

func (a *API) postEndpoint(w http.ResponseWriter, r *http.Request, who principal) error {
	var spec EndpointSpec
	if err := a.decodeBody(w, r, who, &spec, false); err != nil {
		return err
	}
	return a.save(w, r, who, &spec, true)
}

func (a *API) putEndpoint(w http.ResponseWriter, r *http.Request, who principal) error {
	id, err := endpointID(r)
	if err != nil {
		return badRequest("An endpoint's id is 1 to 128 of A-Z a-z 0-9 . _ : -")
	}
	var spec EndpointSpec
	if err := a.decodeBody(w, r, who, &spec, false); err != nil {
		return err
	}
	if spec.ID != "" && spec.ID != id {
		return badRequest("The id in the body is not the one in the path.")
	}
	spec.ID = id
	return a.save(w, r, who, &spec, false)
}

func (a *API) save(w http.ResponseWriter, r *http.Request, who principal, spec *EndpointSpec, mustBeNew bool) error {
	if err := a.ready(); err != nil {
		return err
	}
	s, err := a.settings(spec, who)
	if err != nil {
		return err
	}
	s.MustBeNew = mustBeNew
	saved, err := a.opts.Endpoints.Put(r.Context(), who.scope, s)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if saved.Created {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/endpoints/"+saved.Endpoint.ID)
	}
	return reply(w, status, show(saved.Endpoint, saved.Secret))
}

func (a *API) getEndpoint(w http.ResponseWriter, r *http.Request, who principal) error {
	ep, err := a.lookUp(r, who)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, show(ep, ""))
}

func (a *API) lookUp(r *http.Request, who principal) (*endpoint.Endpoint, error) {
	id, err := endpointID(r)
	if err != nil {
		return nil, err
	}
	if err := a.ready(); err != nil {
		return nil, err
	}
	return a.opts.Endpoints.Get(who.scope, id)
}

func (a *API) listEndpoints(w http.ResponseWriter, r *http.Request, who principal) error {
	if err := a.ready(); err != nil {
		return err
	}
	q := r.URL.Query()
	limit := defaultPage
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return badRequest("limit must be 1 to " + strconv.Itoa(maxPage) + ".")
		}
		limit = n
	}
	scope := who.scope
	if tenant := q.Get("tenant"); scope == "" {
		scope = tenant
	} else if tenant != "" && tenant != scope {
		return reply(w, http.StatusOK, EndpointPage{Endpoints: []Endpoint{}})
	}
	found := a.opts.Endpoints.List(scope, q.Get("after"), limit+1)
	page := EndpointPage{Endpoints: make([]Endpoint, 0, min(len(found), limit))}
	for i, ep := range found {
		if i == limit {
			page.Next = found[i-1].ID
			break
		}
		page.Endpoints = append(page.Endpoints, show(ep, ""))
	}
	return reply(w, http.StatusOK, page)
}

func (a *API) deleteEndpoint(w http.ResponseWriter, r *http.Request, who principal) error {
	ep, err := a.lookUp(r, who)
	if err != nil {
		return err
	}
	if err := a.opts.Endpoints.Delete(r.Context(), who.scope, ep.ID); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) enableEndpoint(w http.ResponseWriter, r *http.Request, who principal) error {
	return a.setState(w, r, who, schemas.EndpointEnabled, "")
}

// resetBreaker closes an endpoint's breaker: an operator knows that the receiver is well again.
func (a *API) resetBreaker(w http.ResponseWriter, r *http.Request, who principal) error {
	ep, err := a.lookUp(r, who)
	if err != nil {
		return err
	}
	if ep, err = a.opts.Endpoints.ResetBreaker(r.Context(), who.scope, ep.ID); err != nil {
		return err
	}
	return reply(w, http.StatusOK, show(ep, ""))
}

func (a *API) disableEndpoint(w http.ResponseWriter, r *http.Request, who principal) error {
	var spec DisableSpec
	if err := a.decodeBody(w, r, who, &spec, true); err != nil {
		return err
	}
	if spec.Reason == "" {
		spec.Reason = endpoint.ReasonOperator
	}
	return a.setState(w, r, who, schemas.EndpointDisabled, spec.Reason)
}

func (a *API) setState(w http.ResponseWriter, r *http.Request, who principal, s schemas.EndpointState, reason string) error {
	ep, err := a.lookUp(r, who)
	if err != nil {
		return err
	}
	ep, err = a.opts.Endpoints.SetState(r.Context(), who.scope, ep.ID, s, reason)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, show(ep, ""))
}

func (a *API) rotateSecret(w http.ResponseWriter, r *http.Request, who principal) error {
	var spec RotateSpec
	if err := a.decodeBody(w, r, who, &spec, true); err != nil {
		return err
	}
	ep, err := a.lookUp(r, who)
	if err != nil {
		return err
	}
	rot := endpoint.Rotation{Overlap: a.opts.RotationOverlap, Secret: secret.String(spec.Secret)}
	if spec.Overlap != nil {
		rot.Overlap = time.Duration(*spec.Overlap)
	}
	saved, err := a.opts.Endpoints.RotateSecret(r.Context(), who.scope, ep.ID, rot)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, show(saved.Endpoint, saved.Secret))
}
