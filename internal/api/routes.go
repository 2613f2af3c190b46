package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/endpoint"
)

// handlerFunc handles a request of someone known, and returns what went wrong.
type handlerFunc func(w http.ResponseWriter, r *http.Request, who principal) error

// Route is one operation of the API.
type Route struct {
	Method, Path string
	Least        Role // the lowest role that may
}

type route struct {
	Route
	handle handlerFunc
}

// Routes lists the operations that need a key, as the OpenAPI document has to.
func Routes() []Route {
	var all []Route
	for _, rt := range (*API)(nil).table() {
		all = append(all, rt.Route)
	}
	return all
}

// table is the one list of what there is; the 405s derive from it.
func (a *API) table() []route {
	return []route{
		{Route{http.MethodPost, "/v1/deliveries", RoleProducer}, a.postDelivery},
		{Route{http.MethodGet, "/v1/deliveries/{id}", RoleProducer}, a.getDelivery},
		{Route{http.MethodGet, "/v1/endpoints", RoleOperator}, a.listEndpoints},
		{Route{http.MethodPost, "/v1/endpoints", RoleOperator}, a.postEndpoint},
		{Route{http.MethodGet, "/v1/endpoints/{id}", RoleOperator}, a.getEndpoint},
		{Route{http.MethodPut, "/v1/endpoints/{id}", RoleOperator}, a.putEndpoint},
		{Route{http.MethodDelete, "/v1/endpoints/{id}", RoleOperator}, a.deleteEndpoint},
		{Route{http.MethodPost, "/v1/endpoints/{id}/enable", RoleOperator}, a.enableEndpoint},
		{Route{http.MethodPost, "/v1/endpoints/{id}/disable", RoleOperator}, a.disableEndpoint},
		{Route{http.MethodPost, "/v1/endpoints/{id}/reset-breaker", RoleOperator}, a.resetBreaker},
		{Route{http.MethodPost, "/v1/endpoints/{id}/rotate-secret", RoleOperator}, a.rotateSecret},
	}
}

func (a *API) routes() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, rt := range a.table() {
		mux.Handle(rt.Method+" "+rt.Path, a.wrap(rt.Least, rt.handle))
		methods[rt.Path] = append(methods[rt.Path], rt.Method)
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		allow := strings.Join(allowed, ", ")
		mux.Handle(path, a.wrap(RoleProducer, func(w http.ResponseWriter, _ *http.Request, _ principal) error {
			w.Header().Set("Allow", allow)
			return problem(http.StatusMethodNotAllowed, CodeMethodNotAllowed, "Method not allowed", "Allowed here: "+allow+".")
		}))
	}
	mux.Handle("/", a.wrap(RoleProducer, func(http.ResponseWriter, *http.Request, principal) error {
		return notFound("There is nothing at this path.")
	}))
	serveOpenAPI(mux)
	return mux
}

// wrap gives a request what all need: a slot, an identity, a role, its tenant's leave, an answer to whatever goes wrong.
func (a *API) wrap(least Role, handle handlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tracked := &trackedWriter{ResponseWriter: w}
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v) // net/http's own way to cut a connection
			}
			// The value may quote the request; the stack does not.
			a.log.Error("api_panic", obs.KeyMethod, r.Method, obs.KeyRoute, r.Pattern, obs.KeyStack, string(debug.Stack()))
			a.fail(tracked, problemOf(errors.New("panic")))
		}()
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
		default:
			a.fail(tracked, overloaded("Too many requests are being handled; try again."))
			return
		}
		a.metrics.inFlight.Inc()
		defer a.metrics.inFlight.Dec()
		if err := a.serve(tracked, r, least, handle); err != nil {
			a.fail(tracked, a.explain(r, err))
		}
	})
}

func (a *API) serve(w http.ResponseWriter, r *http.Request, least Role, handle handlerFunc) error {
	who, err := a.keys.identify(r)
	if err != nil {
		return err
	}
	who.gate = a.gates[who.scope]
	if err := who.gate.enter(); err != nil {
		return err
	}
	defer who.gate.leave()
	if who.role.rank() < least.rank() {
		return problem(http.StatusForbidden, CodeForbidden, "Forbidden", "This key's role may not do that.")
	}
	return handle(w, r, who)
}

// explain maps an error to a problem, and logs what the caller is not told.
func (a *API) explain(r *http.Request, err error) *Problem {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError || p.code == CodeUnavailable {
		a.log.Error("api_request_failed", obs.KeyMethod, r.Method, obs.KeyRoute, r.Pattern, obs.KeyStatus, p.Status, obs.KeyError, err)
	}
	return p
}

func (a *API) fail(w *trackedWriter, p *Problem) {
	a.metrics.rejected.WithLabelValues(p.code).Inc()
	if !w.started {
		p.write(w)
	}
}

// trackedWriter knows whether an answer has begun: then no problem can be sent any more.
type trackedWriter struct {
	http.ResponseWriter
	started bool
}

func (w *trackedWriter) WriteHeader(code int) {
	w.started = true
	w.ResponseWriter.WriteHeader(code)
}

func (w *trackedWriter) Write(b []byte) (int, error) {
	w.started = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController and http.MaxBytesReader.
func (w *trackedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// reply sends a JSON document.
func reply(w http.ResponseWriter, status int, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store") // secrets are in some, and states in others
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the caller may be gone
	return nil
}

// ready refuses what needs the endpoint table as long as it is not whole: an endpoint that is not in it yet is not an
// unknown one (C-013).
func (a *API) ready() error {
	if !a.opts.Table.Ready() {
		return unavailableProblem("The endpoints have not been read yet; try again.")
	}
	return nil
}

// endpointID is the id in the path.
func endpointID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if !endpoint.ValidID(id) {
		return "", notFound("There is no such endpoint.")
	}
	return id, nil
}
