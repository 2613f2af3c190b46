package config

import (
	"time"

	"github.com/barnabas-webhooks/barnabas/internal/kafka"
)

// Default is the configuration of a deployment that sets nothing: the numbers of
// DESIGN.md sections 9, 10 and 14. It is valid but for what has no safe default:
// the API's keys and the key of the endpoints' secrets.
func Default() Config {
	return Config{
		Roles:  []string{RoleAPI, RoleProcessor},
		Kafka:  kafka.DefaultConfig(),
		Topics: Topics{Prefix: "barnabas.", Partitions: 64, Replication: -1},
		Processor: Processor{
			Group:              "barnabas",
			SessionTimeout:     15 * time.Second,
			HeartbeatInterval:  3 * time.Second,
			RebalanceTimeout:   60 * time.Second,
			DrainTimeout:       35 * time.Second,
			Beat:               150 * time.Millisecond,
			TransactionTimeout: 10 * time.Second,
		},
		Retry: Retry{
			Caps: []time.Duration{
				5 * time.Second, time.Minute, 10 * time.Minute, time.Hour,
				6 * time.Hour, 6 * time.Hour, 6 * time.Hour, 6 * time.Hour,
			},
			Tiers:         []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour},
			Lifetime:      26 * time.Hour,
			MaxRetryAfter: 24 * time.Hour,
		},
		Idempotency: Idempotency{Window: 24 * time.Hour},
		Claims:      Claims{Cache: 64 * MiB},
		Breaker: Breaker{
			ConsecutiveHard: 5,
			ConsecutiveAny:  20,
			WindowRatio:     0.5,
			WindowMin:       20,
			Window:          time.Minute,
			OpenFor:         30 * time.Second,
			OpenMax:         15 * time.Minute,
			Jitter:          0.2,
		},
		Lanes:  Lanes{MaxEntries: 256, MaxBytes: 4 * MiB, MaxAge: 5 * time.Second},
		Limits: Limits{InFlight: 1024, EndpointInFlight: 16, Memory: 256 * MiB},
		Timeouts: Timeouts{
			DNS:      2 * time.Second,
			Connect:  3 * time.Second,
			TLS:      5 * time.Second,
			Headers:  10 * time.Second,
			Total:    15 * time.Second,
			MaxTotal: 30 * time.Second,
		},
		API: API{
			Listen:        ":8080",
			MaxBody:       1200 * KiB, // holds the largest payload in base64
			VerdictWait:   500 * time.Millisecond,
			MaxConcurrent: 1024,
			MaxLag:        1_000_000,
		},
		Metrics:   Metrics{Listen: ":9464"},
		Endpoints: Endpoints{RotationOverlap: 24 * time.Hour},
		Log:       Log{Format: "json", Level: "info"},
		Dev:       Dev{DataDir: ".barnabas", BrokerPort: 9092},
	}
}

// DefaultDev is Default for barnabas dev: everything on loopback, receivers on
// this machine allowed, few partitions, topics made at start, a log for people.
func DefaultDev() Config {
	c := Default()
	c.Topics.Partitions = 8
	c.Topics.Replication = 1
	c.Topics.Create = true
	c.Egress.AllowLoopback = true
	c.Egress.AllowHTTP = true
	c.API.Listen = "127.0.0.1:8080"
	c.Metrics.Listen = "127.0.0.1:9464"
	c.Log.Format = "text"
	return c
}
