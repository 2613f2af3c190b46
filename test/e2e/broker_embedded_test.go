//go:build !kafka

package e2e_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/devbroker"
)

// onKafka says which broker the scenarios run on.
const onKafka = false

// openBroker starts the embedded broker for one test.
func openBroker(t *testing.T) string {
	t.Helper()
	b, err := devbroker.Start(devbroker.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b.Addr()
}

// outage is a broker that can be away.
type outage struct {
	t      *testing.T
	dir    string
	port   int
	broker *devbroker.Broker
}

// newOutage makes one that is away.
func newOutage(t *testing.T) *outage {
	t.Helper()
	return &outage{t: t, dir: t.TempDir(), port: freePort(t)}
}

func (o *outage) up() {
	o.t.Helper()
	b, err := devbroker.Start(devbroker.Options{Dir: o.dir, Port: o.port, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(o.t, err)
	o.broker = b
	o.t.Cleanup(func() { require.NoError(o.t, b.Close()) })
}

func (o *outage) down() {
	o.t.Helper()
	require.NoError(o.t, o.broker.Close())
}
