package e2e_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/api/client"
	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// C-230: how a process may be run, and told to stop.
var ways = map[string]struct {
	attributes func(*testing.T) *syscall.SysProcAttr
	signal     syscall.Signal
}{
	"SIGTERM":          {func(*testing.T) *syscall.SysProcAttr { return nil }, syscall.SIGTERM},
	"Ctrl-C":           {func(*testing.T) *syscall.SysProcAttr { return nil }, syscall.SIGINT},
	"SIGTERM as PID 1": {asPID1, syscall.SIGTERM},
	"Ctrl-C as PID 1":  {asPID1, syscall.SIGINT},
}

// busy is a site with requests in flight to slow and to hanging receivers, and more queued behind them.
type busy struct {
	*site
	slow *listen.Receiver
	hang *hanging
	ids  []string // of what the slow ones get
}

const (
	slowOnes, eachSlow = 30, 3
	hangingOnes        = 20
)

func newBusy(t *testing.T, broker string, attributes *syscall.SysProcAttr) (*busy, *process) {
	t.Helper()
	b := &busy{site: newSite(t, broker, ""), hang: &hanging{release: make(chan struct{})}}
	b.attributes = attributes
	p := b.serve("--set", "retry.lifetime=10m")
	var url string
	b.slow, url = b.receiver(listen.Options{Delay: time.Second})
	server := httptest.NewServer(b.hang)
	t.Cleanup(server.Close)
	for i := range hangingOnes {
		b.endpoint(fmt.Sprintf("ep_hangs_%d", i), server.URL)
	}
	for i := range hangingOnes {
		_, err := b.client.Send(t.Context(), client.Send{
			EndpointID: fmt.Sprintf("ep_hangs_%d", i), EventType: "t", Payload: []byte(`{}`), JSON: true, IdempotencyKey: "k", Async: true,
		})
		require.NoError(t, err)
	}
	b.ids = sendMany(b.site, url, slowOnes*eachSlow, slowOnes)
	await(t, "slow requests in flight", func() bool { return b.slow.Stats().Requests > 0 })
	return b, p
}

// C-230: told to stop with requests in flight, some of which hang, and more queued, a process starts nothing more, lets
// what is in flight end, settles it, leaves the group and exits with 0. What was queued is sent by the next one, nothing
// twice. As PID 1 too, where a signal without a handler is ignored.
func TestStop_DrainsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := newBusy(t, openBroker(t), way.attributes(t))
			if b.attributes != nil {
				require.Contains(t, p.text(), `"pid":1}`, "it is not the first process")
			}
			p.signal(way.signal)
			require.Zero(t, p.exitCode())

			stats := b.slow.Stats()
			require.Less(t, stats.Requests, slowOnes*eachSlow, "what was queued is not sent while it stops")
			require.Equal(t, stats.Requests, stats.Delivered, "none was cut off")
			require.NotContains(t, p.text(), "ran out of time")
			require.NotContains(t, p.text(), "was not left in time")
			attempts := b.attempts()
			delivered := func() (n int) {
				for _, a := range attempts() {
					if a.Kind == schemas.AttemptPost && a.Class == string(retry.OK) {
						n++
					}
				}
				return n
			}
			await(t, "all that ended to be settled", func() bool { return delivered() == stats.Delivered })

			close(b.hang.release)
			b.serve("--set", "retry.lifetime=10m")
			await(t, "the rest", func() bool {
				return b.slow.Stats().Delivered == slowOnes*eachSlow && b.hang.answered.Load() == hangingOnes
			})
			require.Zero(t, b.slow.Stats().Repeats)
			requireIDs(t, b.ids, b.slow)
		})
	}
}

// C-230: a second signal ends it at once, with another exit code; what was in flight is sent again under the same id.
func TestStop_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p := newBusy(t, openBroker(t), way.attributes(t))
			p.signal(way.signal)
			await(t, "it to stop in order", func() bool { return status(t, b.ready) == 503 })
			p.signal(way.signal)
			require.Equal(t, 130, p.exitCode())
			close(b.hang.release)
			b.serve("--set", "retry.lifetime=10m")
			await(t, "everything", func() bool {
				return b.slow.Stats().Delivered == slowOnes*eachSlow && b.hang.answered.Load() >= hangingOnes
			})
			requireIDs(t, b.ids, b.slow)
		})
	}
}

// C-230: Kafka is away when it is told to stop. It cannot settle and not leave the group, and ends within its limits
// all the same; nothing is lost by it.
func TestStop_WhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	o.up()
	b, p := newBusy(t, fmt.Sprintf("127.0.0.1:%d", o.port), nil)
	o.down()
	require.Zero(t, p.terminate())
	require.Contains(t, p.text(), "the group was not left in time")
	o.up()
	close(b.hang.release)
	b.serve("--set", "retry.lifetime=10m")
	await(t, "everything", func() bool {
		return b.slow.Stats().Delivered == slowOnes*eachSlow && b.hang.answered.Load() >= hangingOnes
	})
	requireIDs(t, b.ids, b.slow)
}

// C-230: in the image the binary itself is PID 1, not a shell that keeps signals to itself.
func TestStop_ImageRunsTheBinaryItself(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile("../../deploy/Dockerfile")
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), "\nENTRYPOINT [\"/barnabas\"]\n")
	require.NotContains(t, string(dockerfile), "STOPSIGNAL")
}
