package sim_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/app"
)

// Process is one running Barnabas, on a host of its own.
type Process struct {
	Name string // also its version: receivers learn it from the User-Agent
	w    *World
	host *Host
	wire *Wire // to the brokers
	port int
	stop context.CancelFunc
	done chan error
	// What it says of itself.
	metrics *prometheus.Registry
	gone    bool      // stopped or crashed
	died    time.Time // when it crashed
}

// Start runs a process with both roles; each serves the API on a port of its own.
func (w *World) Start(roles ...string) *Process {
	w.t.Helper()
	w.mu.Lock()
	n := len(w.processes) + 1
	p := &Process{Name: fmt.Sprintf("p%d", n), w: w, port: apiPort + n, done: make(chan error, 1), wire: &Wire{}, metrics: prometheus.NewRegistry()}
	w.processes = append(w.processes, p)
	w.mu.Unlock()
	p.host = w.network.Host(p.Name)
	p.host.tap = p.wire.fate
	cfg := w.cfg
	cfg.API.Listen = fmt.Sprintf("127.0.0.1:%d", p.port)
	cfg.Kafka.ClientID = p.Name
	cfg.Kafka.Dialer = p.host.DialContext
	if len(roles) > 0 {
		cfg.Roles = roles
	}
	a, err := app.New(&cfg, app.Options{
		Log: w.processLog(p.Name), Version: p.Name, Listen: p.host.Listen, FetchWait: w.fetchWait, Kafka: w.quiet(), Registry: p.metrics,
		Network: w.egress.of(p.host),
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.ctx)
	p.stop = cancel
	go func() { p.done <- a.Run(ctx) }()
	w.t.Cleanup(func() { p.Thaw(); cancel(); _ = p.wait() })
	return p
}

// Stop ends a process in order and waits for it.
func (p *Process) Stop() error {
	p.leaves(time.Time{})
	p.stop()
	return p.wait()
}

// Crash is kill -9: from now on nothing of the process reaches anybody. What is
// left of it in memory ends by itself.
func (p *Process) Crash() {
	p.leaves(time.Now())
	p.host.Down()
	p.stop()
}

func (p *Process) leaves(died time.Time) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.gone, p.died = true, died
}

// Freeze stalls a process's connections: to the others it is as if it had
// stopped; what it writes arrives when it thaws.
func (p *Process) Freeze() { p.host.Freeze() }

// Thaw lets it go on.
func (p *Process) Thaw() { p.host.Thaw() }

func (p *Process) wait() error {
	err := <-p.done
	p.done <- err
	return err
}

// buryMembers does what the broker owes a member that crashed: it ends its session.
// kfake starts no session for a member whose connection has gone by the time its
// join is answered, so that it stays in the group for ever, with its units.
func (w *World) buryMembers() {
	info := w.cluster.GroupInfo(w.cfg.Processor.Group)
	if info == nil {
		return
	}
	dead := map[string]bool{}
	w.mu.Lock()
	for _, p := range w.processes {
		dead[p.Name] = !p.died.IsZero() && time.Since(p.died) > w.cfg.Processor.SessionTimeout
	}
	w.mu.Unlock()
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = w.cfg.Processor.Group
	for _, m := range info.Members {
		if dead[m.ClientID] {
			member := kmsg.NewLeaveGroupRequestMember()
			member.MemberID = m.MemberID
			leave.Members = append(leave.Members, member)
		}
	}
	if len(leave.Members) > 0 {
		_, _ = leave.RequestWith(w.ctx, w.client) // if it fails, the next one will do
	}
}

// alive lists the processes that were neither stopped nor crashed.
func (w *World) alive() []*Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var alive []*Process
	for _, p := range w.processes {
		if !p.gone {
			alive = append(alive, p)
		}
	}
	return alive
}

// Endpoint saves an endpoint through the API.
func (w *World) Endpoint(id, url string) {
	w.t.Helper()
	w.PutEndpoint(id, fmt.Sprintf(`{"url":%q}`, url))
}

// PutEndpoint saves an endpoint with all its settings, trying until it is saved.
func (w *World) PutEndpoint(id, spec string) {
	w.t.Helper()
	var status int
	var answer string
	for range 600 {
		if status, answer = w.call(http.MethodPut, "/v1/endpoints/"+id, spec, nil); status/100 == 2 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.Failf(w.t, "endpoint cannot be saved", "%s: %d %s", id, status, answer)
}
