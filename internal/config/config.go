package config

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
)

// Roles of a process.
const (
	RoleAPI       = "api"
	RoleProcessor = "processor"
)

// Config is the whole tree. Tags: koanf is the key, doc its meaning in the
// reference. Zero means what the doc says, and is refused where it says nothing.
type Config struct {
	Roles       []string     `koanf:"roles" doc:"What this process does: api, processor, or both."`
	Kafka       kafka.Config `koanf:"kafka"`
	Topics      Topics       `koanf:"topics"`
	Processor   Processor    `koanf:"processor"`
	Retry       Retry        `koanf:"retry"`
	Idempotency Idempotency  `koanf:"idempotency"`
	Claims      Claims       `koanf:"claims"`
	Breaker     Breaker      `koanf:"breaker"`
	Lanes       Lanes        `koanf:"lanes"`
	Limits      Limits       `koanf:"limits"`
	Timeouts    Timeouts     `koanf:"timeouts"`
	Egress      Egress       `koanf:"egress"`
	API         API          `koanf:"api"`
	Metrics     Metrics      `koanf:"metrics"`
	Endpoints   Endpoints    `koanf:"endpoints"`
	Log         Log          `koanf:"log"`
	Dev         Dev          `koanf:"dev"`
}

// Topics names and shapes the topics.
type Topics struct {
	Prefix      string `koanf:"prefix"      doc:"Start of every topic name. May be empty."`
	Partitions  int    `koanf:"partitions"  doc:"Partitions of every unit topic. Pinned: keys hash to partitions, so changing it later needs a migration."`
	Replication int    `koanf:"replication" doc:"Replication factor of topics that are created. -1: the broker's default."`
	Create      bool   `koanf:"create"      doc:"Create missing topics at start. Existing ones are never changed: see barnabas topics."`
}

// Processor is the consumer group and the beat of its settling.
type Processor struct {
	Group              string        `koanf:"group"               doc:"Consumer group. One per installation, and for good: a new one delivers all events that are still in the topic once more."`
	SessionTimeout     time.Duration `koanf:"session_timeout"     doc:"A process that is not heard of for so long loses its units."`
	HeartbeatInterval  time.Duration `koanf:"heartbeat_interval"  doc:"How often the process is heard of; at most a third of session_timeout."`
	RebalanceTimeout   time.Duration `koanf:"rebalance_timeout"   doc:"How long the group waits for a process to give units up; at least drain_timeout + transaction_timeout."`
	DrainTimeout       time.Duration `koanf:"drain_timeout"       doc:"How long requests in flight may go on when units are revoked or the process stops; at least timeouts.max_total."`
	Beat               time.Duration `koanf:"beat"                doc:"Longest time between two settling transactions."`
	TransactionTimeout time.Duration `koanf:"transaction_timeout" doc:"The broker aborts a transaction that is open for so long; a new owner may have to wait for it."`
}

// Retry is the schedule.
type Retry struct {
	Caps          []time.Duration `koanf:"caps"            doc:"Upper bound of the wait before retry 1, 2, ...; the wait is drawn uniformly below it. Attempts are one more than caps."`
	Tiers         []time.Duration `koanf:"tiers"           doc:"Waits that have a topic of their own (retry.1m, ...), ascending, in whole seconds. One that is taken out leaves what waits in its topic unread."`
	Lifetime      time.Duration   `koanf:"lifetime"        doc:"A delivery is given up on so long after acceptance, whatever its attempts; at least the sum of caps."`
	MaxRetryAfter time.Duration   `koanf:"max_retry_after" doc:"Longest Retry-After of a receiver that is honoured."`
}

// Idempotency is the arbiter's window.
type Idempotency struct {
	Window time.Duration `koanf:"window" doc:"How long an idempotency key keeps a second delivery away, from the first event's time on."`
}

// Claims is where the keys of the window are remembered: a cache of the idempotency topic.
type Claims struct {
	Directory string `koanf:"directory" doc:"Directory on local disk, of this process alone. Losing it costs a longer start and nothing else. Empty: all keys are kept in memory, and read anew at each start; for dev, the folder claims in dev.data_dir."`
	Cache     Size   `koanf:"cache"     doc:"Memory for keys on disk, at most. It should hold 1.25 bytes for each: see the runbook."`
}

// Breaker is the circuit breaker of every endpoint.
type Breaker struct {
	ConsecutiveHard int           `koanf:"consecutive_hard" doc:"Opens after so many dns, connect, tls, timeout, reset, 5xx or 429 in a row."`
	ConsecutiveAny  int           `koanf:"consecutive_any"  doc:"Opens after so many failures of any class in a row."`
	WindowRatio     float64       `koanf:"window_ratio"     doc:"Opens when this share of the attempts within window failed (0 to 1] ..."`
	WindowMin       int           `koanf:"window_min"       doc:"... and there were at least so many."`
	Window          time.Duration `koanf:"window"           doc:"Length of the window."`
	OpenFor         time.Duration `koanf:"open_for"         doc:"First opening; each further one doubles it."`
	OpenMax         time.Duration `koanf:"open_max"         doc:"Longest opening."`
	Jitter          float64       `koanf:"jitter"           doc:"Share by which an opening is varied, either way [0 to 1)."`
}

// Lanes bound what waits in memory for one endpoint; what is over spills to the first tier.
type Lanes struct {
	MaxEntries int           `koanf:"max_entries" doc:"Deliveries per lane."`
	MaxBytes   Size          `koanf:"max_bytes"   doc:"Payload bytes per lane."`
	MaxAge     time.Duration `koanf:"max_age"     doc:"Age of the head of a lane before the lane spills."`
}

// Limits are the process's caps.
type Limits struct {
	InFlight         int     `koanf:"in_flight"          doc:"Requests in flight, over all endpoints. Those whose last attempt took a second or more, or that have made none yet, share three quarters of them."`
	EndpointInFlight int     `koanf:"endpoint_in_flight" doc:"Requests in flight per endpoint that is not ordered and sets no limit of its own."`
	Memory           Size    `koanf:"memory"             doc:"Bytes of records in memory; a record counts twice its size and 600 bytes. The process needs about 256 MiB beside them. Unless GOMEMLIMIT is set, the Go runtime gets a soft limit from it."`
	Rate             float64 `koanf:"rate"               doc:"Requests per second, over all endpoints. 0: no limit."`
}

// Timeouts bound the parts of one attempt.
type Timeouts struct {
	DNS      time.Duration `koanf:"dns"       doc:"Resolving the name."`
	Connect  time.Duration `koanf:"connect"   doc:"Connecting, all addresses together."`
	TLS      time.Duration `koanf:"tls"       doc:"TLS handshake."`
	Headers  time.Duration `koanf:"headers"   doc:"From the request written to the response's headers."`
	Total    time.Duration `koanf:"total"     doc:"The whole attempt, response body included, where the endpoint sets no timeout."`
	MaxTotal time.Duration `koanf:"max_total" doc:"Longest timeout that an endpoint may set."`
}

// Egress guards what is connected to.
type Egress struct {
	Allow         []string      `koanf:"allow"          doc:"IP addresses and CIDR ranges that are allowed although they are not public."`
	AllowLoopback bool          `koanf:"allow_loopback" doc:"Allow the machine itself (127.0.0.0/8, ::1). For development."`
	AllowHTTP     bool          `koanf:"allow_http"     doc:"Allow endpoints without TLS. Payloads travel in the clear."`
	Proxy         secret.String `koanf:"proxy"          doc:"URL of an HTTP CONNECT proxy for all attempts; may hold credentials. Proxies of the environment are ignored. Empty: none."`
	NoProxy       []string      `koanf:"no_proxy"       doc:"Hosts, domain suffixes and CIDR ranges that go past the proxy."`
	CAFile        string        `koanf:"ca_file"        doc:"PEM file of authorities to trust beside the system's, for receivers with a private one."`
}

// API is the HTTP interface for producers and operators.
type API struct {
	Listen        string        `koanf:"listen"         doc:"Address to listen on, host:port. An empty host means every interface."`
	Keys          []string      `koanf:"keys"           doc:"API keys, stored hashed: see barnabas serve --help. Needed for the role api, but for dev."`
	KeysFile      string        `koanf:"keys_file"      doc:"File with one API key entry per line, added to keys. Lines that are empty or start with # are skipped."`
	TLSCertFile   string        `koanf:"tls_cert_file"  doc:"PEM file of the server's certificate. Empty: no TLS."`
	TLSKeyFile    string        `koanf:"tls_key_file"   doc:"PEM file of its private key."`
	MaxBody       Size          `koanf:"max_body"       doc:"Largest request body that is accepted."`
	VerdictWait   time.Duration `koanf:"verdict_wait"   doc:"How long a send waits for the verdict on its idempotency key before it answers 202 pending. 0: no wait."`
	MaxConcurrent int           `koanf:"max_concurrent" doc:"Requests served at a time; more are answered 503."`
	MaxLag        int           `koanf:"max_lag"        doc:"Events of one partition that may wait before sends to its endpoints are answered 503; read every 5 s. Up to 131,072 that are done already may be counted. 0: any number."`

	TenantRate       float64  `koanf:"tenant_rate"       doc:"Sends per second of one tenant, on each API process; more are answered 429. 0: any number."`
	TenantBurst      int      `koanf:"tenant_burst"      doc:"Sends of one tenant that may come at once after a pause. 0: those of one second."`
	TenantConcurrent int      `koanf:"tenant_concurrent" doc:"Requests of one tenant served at a time; more are answered 429. 0: half of max_concurrent, or all of it where there is one tenant."`
	Tenants          []string `koanf:"tenants"           doc:"Limits of single tenants in place of the three above: TENANT:RATE:BURST:CONCURRENT, where 0 means what it means there."`
}

// Metrics is the operators' listener.
type Metrics struct {
	Listen string `koanf:"listen" doc:"Address for /metrics, /healthz and /readyz, host:port. Empty: none."`
	Pprof  bool   `koanf:"pprof"  doc:"Serve /debug/pprof there too."`
}

// Endpoints is how their secrets rest and rotate.
type Endpoints struct {
	SecretKey       secret.String `koanf:"secret_key"       doc:"Key that signing secrets are encrypted with: 32 bytes in base64. Prefer secret_key_file."`
	SecretKeyFile   string        `koanf:"secret_key_file"  doc:"File that holds the key; line ends at its end are ignored."`
	RotationOverlap time.Duration `koanf:"rotation_overlap" doc:"How long a rotated-out signing secret still signs. 0: not at all."`
}

// Log is the process's log, on standard error.
type Log struct {
	Format string `koanf:"format" doc:"text or json."`
	Level  string `koanf:"level"  doc:"debug, info, warn or error."`
}

// Dev is what only barnabas dev uses.
type Dev struct {
	DataDir    string `koanf:"data_dir"    doc:"Directory of the embedded broker's data and keys. Made if it is not there."`
	BrokerPort int    `koanf:"broker_port" doc:"Port of the embedded broker, on loopback. 0: any free one."`
}
