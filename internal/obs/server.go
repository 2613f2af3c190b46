package obs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the operators' listener.
const (
	readTimeout  = 10 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHeader    = 64 << 10
	maxScrapes   = 4               // at a time; more are answered 503
	scrapeLimit  = 5 * time.Second // of one scrape
	stopDeadline = 5 * time.Second
)

// ServerOptions are what the operators' listener serves.
type ServerOptions struct {
	Listen    string // host:port; port 0: any free one
	Registry  *prometheus.Registry
	Readiness *Readiness // nil: always ready
	Alive     func() error
	Pprof     bool
	Log       *slog.Logger
}

// Server is the operators' listener. It is up before the parts of the process
// are, so that a start that hangs can be seen (C-234).
type Server struct {
	ln   net.Listener
	http *http.Server
	done chan error
}

// Serve listens and serves until Close.
func Serve(ctx context.Context, o ServerOptions) (*Server, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("metrics listener: %w", err)
	}
	s := &Server{ln: ln, done: make(chan error, 1), http: &http.Server{
		Handler: Handler(o), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(NewQuiet(o.Log.Handler(), QuietOptions{}), slog.LevelWarn),
	}}
	go func() { s.done <- s.http.Serve(ln) }()
	return s, nil
}

// Addr is the address that is listened on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close stops listening, waits up to five seconds for scrapes in flight, and
// returns when the serving goroutine has ended.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopDeadline)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil { // a client held on: cut it off
		err = errors.Join(err, s.http.Close())
	}
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// Handler serves /metrics, /healthz, /readyz and, when asked for, /debug/pprof.
func Handler(o ServerOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{
		Registry: o.Registry, MaxRequestsInFlight: maxScrapes, Timeout: scrapeLimit, EnableOpenMetrics: true,
		ErrorLog: slog.NewLogLogger(NewQuiet(o.Log.Handler(), QuietOptions{}), slog.LevelWarn),
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		var err error
		if o.Alive != nil {
			err = o.Alive()
		}
		check := Check{Name: "alive", Ready: err == nil}
		if err != nil {
			check.Reason = err.Error()
		}
		answer(w, r, []Check{check}, err == nil)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if o.Readiness == nil {
			answer(w, r, nil, true)
			return
		}
		checks, ready := o.Readiness.Checks()
		answer(w, r, checks, ready)
	})
	if o.Pprof {
		var c contention
		mux.HandleFunc("GET /debug/pprof/block", c.handler("block"))
		mux.HandleFunc("GET /debug/pprof/mutex", c.handler("mutex"))
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// answer says 200 or 503, and which checks pass: JSON for who asks for it, else a line each.
func answer(w http.ResponseWriter, r *http.Request, checks []Check, ready bool) {
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if checks == nil {
			checks = []Check{}
		}
		_ = json.NewEncoder(w).Encode(struct {
			Ready  bool    `json:"ready"`
			Checks []Check `json:"checks"`
		}{ready, checks})
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	if ready {
		_, _ = fmt.Fprintln(w, "ok")
	} else {
		_, _ = fmt.Fprintln(w, "not ready")
	}
	for _, c := range checks {
		if c.Ready {
			_, _ = fmt.Fprintf(w, "[+] %s\n", c.Name)
		} else {
			_, _ = fmt.Fprintf(w, "[-] %s: %s\n", c.Name, c.Reason)
		}
	}
}
