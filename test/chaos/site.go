package chaos

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/barnabas-webhooks/barnabas/topics"
)

// timing is what the configuration below says and the judgement uses.
type timing struct {
	beat        time.Duration // between two settling transactions
	transaction time.Duration // timeout of one
	heartbeat   time.Duration
	attempt     time.Duration // longest attempt
	inFlight    int           // requests of one worker at a time
}

// shortTiming is short enough for a run of minutes, and long enough for two cores that others use too.
func shortTiming() timing {
	return timing{
		beat: 100 * time.Millisecond, transaction: 5 * time.Second, heartbeat: 500 * time.Millisecond,
		attempt: 3 * time.Second, inFlight: 128,
	}
}

// site is one installation: configuration, addresses, credentials.
type site struct {
	dir       string
	broker    string
	config    string // path
	token     string // of an admin
	secret    string // signs every endpoint
	group     string
	catalogue topics.Catalogue
	timing    timing
}

// newSite writes the configuration that all processes share: the real one, with short waits.
func newSite(dir, broker string, o *Options) (*site, error) {
	var key, secret [32]byte
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	_, _ = rand.Read(secret[:])
	s := &site{
		dir: dir, broker: broker, config: filepath.Join(dir, "barnabas.yaml"), token: rand.Text(), group: "chaos",
		secret: "whsec_" + base64.StdEncoding.EncodeToString(secret[:]), timing: shortTiming(),
		catalogue: topics.Catalogue{
			Prefix: "chaos.", Partitions: o.Partitions, Tiers: []time.Duration{time.Second, 2 * time.Second, 5 * time.Second},
		},
	}
	config := fmt.Sprintf(`kafka: {brokers: [%q]}
topics: {prefix: "chaos.", partitions: %d, replication: 1, create: true}
processor:
  group: %s
  session_timeout: %s
  heartbeat_interval: %s
  rebalance_timeout: 20s
  drain_timeout: 5s
  beat: %s
  transaction_timeout: %s
timeouts: {dns: 1s, connect: 1s, tls: 2s, headers: %[8]s, total: %[8]s, max_total: %[8]s}
retry: {tiers: [1s, 2s, 5s], caps: [500ms, 1s, 2s, 4s, 5s], lifetime: 90s}
breaker: {open_for: 1s, open_max: 4s}
limits: {in_flight: %[9]d, memory: 64MiB}
egress: {allow_loopback: true, allow_http: true}
api: {keys: ["chaos:admin::%[10]x"]}
endpoints: {secret_key: %[11]q}
`, broker, o.Partitions, s.group, o.Session, s.timing.heartbeat, s.timing.beat, s.timing.transaction, s.timing.attempt, s.timing.inFlight,
		sha256.Sum256([]byte(s.token)), base64.StdEncoding.EncodeToString(key[:]))
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return s, nil
}
