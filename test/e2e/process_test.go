package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/topics"
)

const (
	patience      = 60 * time.Second
	token         = "e2e-admin-token-0123456789"
	signingSecret = "whsec_ZTJlLXRlc3Qtc2lnbmluZy1zZWNyZXQtMDEyMzQ1Njc="
)

// site is one installation: topics, group and configuration of a test's own.
type site struct {
	t       *testing.T
	dir     string
	broker  string
	prefix  string
	api     string // base URL
	ready   string // URL of /readyz
	metrics string // URL of /metrics
	config  string // path
	client  *client.Client
	// attributes of every process that is started; nil: ordinary ones.
	attributes *syscall.SysProcAttr
}

var sites atomic.Int64

// newSite writes a configuration with short waits; more is appended to it.
func newSite(t *testing.T, broker, more string) *site {
	t.Helper()
	apiPort, metricsPort := freePort(t), freePort(t)
	s := &site{
		t: t, dir: t.TempDir(), broker: broker,
		prefix: fmt.Sprintf("e2e-%d-%d.", os.Getpid(), sites.Add(1)),
		api:    fmt.Sprintf("http://127.0.0.1:%d", apiPort),
		ready:  fmt.Sprintf("http://127.0.0.1:%d/readyz", metricsPort), metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", metricsPort),
	}
	s.config = filepath.Join(s.dir, "barnabas.yaml")
	conf := fmt.Sprintf(`kafka: {brokers: [%s]}
topics: {prefix: %q, partitions: 4, replication: 1, create: true}
processor:
  group: %q
  session_timeout: 6s
  heartbeat_interval: 500ms
  rebalance_timeout: 20s
  drain_timeout: 5s
  beat: 50ms
  transaction_timeout: 3s
timeouts: {connect: 1s, dns: 1s, tls: 2s, headers: 3s, total: 3s, max_total: 3s}
retry: {tiers: [1s, 2s, 4s], caps: [200ms, 500ms, 1s], lifetime: 30s}
breaker: {open_for: 500ms, open_max: 1s}
egress: {allow_loopback: true, allow_http: true}
api: {listen: "127.0.0.1:%d", keys: ["e2e:admin::%x"]}
metrics: {listen: "127.0.0.1:%d"}
endpoints: {secret_key: "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
%s`, broker, s.prefix, s.prefix+"group", apiPort, sha256.Sum256([]byte(token)), metricsPort, more)
	require.NoError(t, os.WriteFile(s.config, []byte(conf), 0o600))
	var err error
	s.client, err = client.New(client.Options{BaseURL: s.api, Token: secret.String(token), Timeout: 10 * time.Second})
	require.NoError(t, err)
	return s
}

func (s *site) catalogue() topics.Catalogue {
	return topics.Catalogue{Prefix: s.prefix, Partitions: 4, Tiers: []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}}
}

// process is one running barnabas.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{}
}

// start runs a command that does not end by itself.
func (s *site) start(args ...string) *process {
	s.t.Helper()
	log, err := os.CreateTemp(s.dir, "log-")
	require.NoError(s.t, err)
	p := &process{t: s.t, cmd: exec.Command(binary, args...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), "BARNABAS_TEST_PROCESS=1")
	p.cmd.SysProcAttr = s.attributes
	require.NoError(s.t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	s.t.Cleanup(func() {
		p.kill()
		if s.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			s.t.Logf("end of the log of %s:\n%s", strings.Join(args, " "), text[max(0, len(text)-8000):])
		}
	})
	return p
}

// serve runs both roles and waits until they are ready.
func (s *site) serve(flags ...string) *process {
	s.t.Helper()
	p := s.start(append([]string{"serve", "--config", s.config}, flags...)...)
	s.awaitReady(p)
	return p
}

func (s *site) awaitReady(p *process) {
	s.t.Helper()
	await(s.t, "barnabas to be ready", func() bool {
		require.True(s.t, p.running(), "barnabas ended")
		return status(s.t, s.ready) == http.StatusOK
	})
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// terminate is SIGTERM; it returns the exit code.
func (p *process) terminate() int {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	return p.exitCode()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// exitCode waits for the end.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("barnabas does not stop")
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) text() string {
	b, err := os.ReadFile(p.log.Name())
	require.NoError(p.t, err)
	return string(b)
}

// run runs a command to its end and returns what it printed and its exit code.
func (s *site) run(stdin string, args ...string) (out string, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	cmd.Env = append(os.Environ(), "BARNABAS_URL="+s.api, "BARNABAS_API_KEY="+token, "BARNABAS_CONFIG="+s.config)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(s.t, err)
	}
	return b.String(), cmd.ProcessState.ExitCode()
}

// receiver starts a development receiver that checks signatures.
func (s *site) receiver(o listen.Options) (*listen.Receiver, string) {
	s.t.Helper()
	o.Secrets = []string{signingSecret}
	r, err := listen.New(o)
	require.NoError(s.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.t, err)
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	s.t.Cleanup(func() { _ = server.Close() })
	return r, "http://" + l.Addr().String() + "/hook"
}

// endpoint saves an endpoint.
func (s *site) endpoint(id, url string) {
	s.t.Helper()
	_, err := s.client.PutEndpoint(s.t.Context(), api.EndpointSpec{ID: id, URL: url, Secret: signingSecret})
	require.NoError(s.t, err)
}

// send hands an event over through the API.
func (s *site) send(id, key, payload string) (client.Sent, error) {
	s.t.Helper()
	return s.client.Send(s.t.Context(), client.Send{
		EndpointID: id, EventType: "order.paid", Payload: []byte(payload), JSON: true, IdempotencyKey: key,
	})
}

// kafka makes a client of the test's own.
func (s *site) kafka(more ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(s.broker, ",")...)}, more...)...)
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

// await asks until it is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	require.Eventually(t, so, patience, 50*time.Millisecond, "waited for %s", what)
}

func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
