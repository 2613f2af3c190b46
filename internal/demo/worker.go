package demo

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// worker is the barnabas process: API and processor together.
type worker struct {
	executable string
	config     string
	logFile    string
	api        string // base URL
	ready      string // URL of /readyz
	token      string // of an admin
	http       *http.Client
	cmd        *exec.Cmd
	ended      chan error // takes what the process ended with
}

// newWorker writes the configuration: the real one, with short waits.
func newWorker(o Options, dir, broker string) (*worker, error) {
	apiAddr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddr()
	if err != nil {
		return nil, err
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	token := rand.Text()
	config := fmt.Sprintf(`kafka:
  brokers: [%q]
topics:
  partitions: 8
  replication: 1
  create: true
processor:
  session_timeout: 3s
  heartbeat_interval: 500ms
  rebalance_timeout: 20s
  drain_timeout: 5s
  beat: 50ms
  transaction_timeout: 2s
timeouts:
  connect: 1s
  dns: 1s
  tls: 2s
  headers: 3s
  total: 3s
  max_total: 3s
retry:
  tiers: [1s, 2s, 4s]
  caps: [500ms, 1s, 2s, 2s]
  lifetime: %s
breaker:
  open_for: 1s
  open_max: 2s
egress:
  allow_loopback: true
  allow_http: true
api:
  listen: %q
  keys: ["demo:admin::%x"]
metrics:
  listen: %q
endpoints:
  secret_key: %q
`, broker, lifetime, apiAddr, sha256.Sum256([]byte(token)), metrics, base64.StdEncoding.EncodeToString(key[:]))
	w := &worker{
		executable: o.Executable, config: filepath.Join(dir, "barnabas.yaml"), logFile: filepath.Join(dir, "barnabas.log"),
		http: &http.Client{Timeout: 2 * time.Second}, token: token, api: "http://" + apiAddr, ready: "http://" + metrics + "/readyz",
	}
	if err := os.WriteFile(w.config, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return w, nil
}

// start runs the process and waits until it is ready.
func (w *worker) start(ctx context.Context) error {
	log, err := os.OpenFile(w.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()                                                 //nolint:errcheck // the process has its own descriptor
	w.cmd = exec.Command(w.executable, "serve", "--config", w.config) //nolint:gosec,noctx // our own binary; it is ended by kill
	w.cmd.Stdout, w.cmd.Stderr = log, log
	if err := w.cmd.Start(); err != nil {
		return fmt.Errorf("start barnabas: %w", err)
	}
	w.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan<- error) { ended <- cmd.Wait() }(w.cmd, w.ended)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.ready, http.NoBody)
		if err != nil {
			return fmt.Errorf("ask whether it is ready: %w", err)
		}
		if resp, err := w.http.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-w.ended:
			w.cmd = nil
			return fmt.Errorf("barnabas ended before it was ready, see %s: %w", w.logFile, err)
		case <-ctx.Done():
			return fmt.Errorf("barnabas did not become ready, see %s: %w", w.logFile, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// kill ends the process as a power cut would: SIGKILL.
func (w *worker) kill() error {
	if err := w.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	_ = <-w.ended //nolint:staticcheck // "signal: killed" is what was wanted
	w.cmd = nil
	return nil
}

// stop ends the process in order; it says what went wrong with that.
func (w *worker) stop() error {
	if w.cmd == nil {
		return nil
	}
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	select {
	case err := <-w.ended:
		if err != nil {
			return fmt.Errorf("barnabas did not stop in order, see %s: %w", w.logFile, err)
		}
		return nil
	case <-time.After(15 * time.Second):
		_ = w.cmd.Process.Kill()
		_ = <-w.ended //nolint:staticcheck // it was killed
		return fmt.Errorf("barnabas did not stop within 15s, see %s", w.logFile)
	}
}

// freeAddr finds a loopback port that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // local and immediate
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return addr, nil
}
