package sim_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-webhooks/barnabas/internal/app"
	"github.com/barnabas-webhooks/barnabas/internal/config"
	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
	"github.com/barnabas-webhooks/barnabas/internal/secret"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// World is one simulated installation: a Kafka cluster, receivers, and any number
// of processes. It must be made and used inside a bubble.
type World struct {
	t         *testing.T
	ctx       context.Context //nolint:containedctx // the test's own
	start     time.Time
	network   *Network
	brokers   *Host // all of them
	outside   *Host // services that send, and operators
	egress    Egress
	cluster   *kfake.Cluster
	cfg       config.Config
	fetchWait time.Duration
	silent    func(who string) // called when a process has not heard of its group for a session; nil: nobody wants to know
	client    *kgo.Client      // produces as a service would
	admin     *kadm.Client
	ports     int           // of receivers, the last one taken
	asked     atomic.Uint64 // API calls, to go round the processes

	mu        sync.Mutex // guards what follows
	processes []*Process // all that ever were
}

const (
	brokerPort   = 9092
	apiPort      = 8080
	receiverPort = 20000
	// sealingKey is the key of the endpoints' secrets in every world.
	sealingKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
)

// Setting is what kind of world it is.
type Setting struct {
	Brokers   int
	Latency   func() time.Duration
	FetchWait time.Duration
	Configure func(*config.Config)
}

// NewWorld starts a broker with all topics, for scenarios of days.
func NewWorld(t *testing.T) *World {
	t.Helper()
	return NewWorldOf(t, Setting{Brokers: 1, FetchWait: 30 * time.Second})
}

// NewWorldOf starts the brokers of a setting.
func NewWorldOf(t *testing.T, s Setting) *World {
	t.Helper()
	w := &World{t: t, ctx: t.Context(), start: time.Now(), network: &Network{latency: s.Latency}, ports: receiverPort, fetchWait: s.FetchWait}
	w.brokers, w.outside = w.network.Host("brokers"), w.network.Host("outside")
	var ports []int
	var seeds []string
	for i := range s.Brokers {
		ports = append(ports, brokerPort+i)
		seeds = append(seeds, fmt.Sprintf("localhost:%d", brokerPort+i))
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(s.Brokers), kfake.Ports(ports...), kfake.ListenFn(w.brokers.Listen), kfake.GroupMinSessionTimeout(time.Second),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "3600000000"}), // the schedule compacts, and knows when
	)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	w.cluster = cluster
	stampAtBroker(cluster)
	devbroker.WholeFetches(cluster)

	w.cfg = config.Default()
	w.cfg.Topics.Partitions, w.cfg.Topics.Replication, w.cfg.Topics.Create = 4, 1, true
	w.cfg.Kafka.Brokers = seeds
	w.cfg.Endpoints.SecretKey = secret.String(sealingKey)
	w.cfg.Egress.AllowHTTP, w.cfg.Egress.AllowLoopback = true, true
	w.cfg.Metrics.Listen = ""
	if s.Configure != nil {
		s.Configure(&w.cfg)
	}
	w.client = w.newClient()
	w.admin = kadm.NewClient(w.client)
	return w
}

// stampAtBroker makes the time of every record that of its append, as the topics
// ask for (message.timestamp.type): kfake does so only for batches that ask
// themselves, and spoils their checksum; so each batch is made to ask, and is as
// kfake will make it.
func stampAtBroker(cluster *kfake.Cluster) {
	// Where things are in a batch; the checksum is over all that follows it.
	const checksum, attributes, firstTimestamp, maxTimestamp, records = 17, 21, 27, 35, 43
	const logAppendTime = 0x08
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		now := uint64(time.Now().UnixMilli())
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				if len(p.Records) < records {
					continue
				}
				p.Records[attributes+1] |= logAppendTime
				binary.BigEndian.PutUint64(p.Records[firstTimestamp:], now)
				binary.BigEndian.PutUint64(p.Records[maxTimestamp:], now)
				binary.BigEndian.PutUint32(p.Records[checksum:], crc32.Checksum(p.Records[attributes:], castagnoli))
			}
		}
		return nil, nil, false
	})
}

// newClient makes a Kafka client of the outside world, which no fault touches but
// those of the brokers.
func (w *World) newClient(more ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	client, err := kgo.NewClient(append(w.kafka(w.outside, w.log("outside")), more...)...)
	require.NoError(w.t, err)
	w.t.Cleanup(client.Close)
	return client
}

// kafka is how a host reaches the cluster.
func (w *World) kafka(h *Host, log *slog.Logger) []kgo.Opt {
	w.t.Helper()
	cfg := w.cfg.Kafka
	cfg.Dialer = h.DialContext
	opts, err := cfg.Options(log)
	require.NoError(w.t, err)
	return append(opts, w.quiet()...)
}

// quiet are options that spare an idle client requests: days cost what is sent in them.
func (w *World) quiet() []kgo.Opt {
	return []kgo.Opt{kgo.DisableClientMetrics(), kgo.FetchMaxWait(w.fetchWait), kgo.MetadataMaxAge(max(time.Minute, 30*w.fetchWait))}
}

// heard passes a process's log on, and tells of its silence in the group.
type heard struct {
	slog.Handler
	silent func()
}

func (h heard) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

func (h heard) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "nothing was heard of the group") {
		h.silent()
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h heard) WithAttrs(attrs []slog.Attr) slog.Handler {
	return heard{h.Handler.WithAttrs(attrs), h.silent}
}

func (h heard) WithGroup(name string) slog.Handler { return heard{h.Handler.WithGroup(name), h.silent} }

// processLog is the log of a process. One that the group has given up while it waited to be let in again may have lost its units:
// kfake ends the session of a member that waits for the answer to its JoinGroup, which Apache Kafka keeps alive.
func (w *World) processLog(who string) *slog.Logger {
	return slog.New(heard{w.log(who).Handler(), func() {
		if w.silent != nil {
			w.silent(who)
		}
	}})
}

// log is silent unless BARNABAS_SIM_LOG is set: to a level, or to anything for all.
func (w *World) log(who string) *slog.Logger {
	text := os.Getenv("BARNABAS_SIM_LOG")
	if text == "" {
		return slog.New(slog.DiscardHandler)
	}
	level := slog.LevelDebug
	_ = level.UnmarshalText([]byte(text)) // anything else: debug
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				a.Value = slog.DurationValue(a.Value.Time().Sub(w.start))
			}
			return a
		},
	})).With("who", who)
}

// now is how old the world is.
func (w *World) now() time.Duration { return time.Since(w.start) }

// Catalogue names the world's topics.
func (w *World) Catalogue() topics.Catalogue { return app.Catalogue(&w.cfg) }
