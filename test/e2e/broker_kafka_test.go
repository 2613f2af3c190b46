//go:build kafka

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/internal/testkit/realkafka"
)

// onKafka says which broker the scenarios run on.
const onKafka = true

// openBroker is the cluster of the whole run.
func openBroker(t *testing.T) string {
	t.Helper()
	return strings.Join(realkafka.Start(t).Bootstrap(), ",")
}

// outage is a broker of the test's own that can be away.
type outage struct {
	t      *testing.T
	dir    string
	port   int
	broker *realkafka.Broker
}

// newOutage makes one that is away.
func newOutage(t *testing.T) *outage {
	t.Helper()
	return &outage{t: t, dir: t.TempDir(), port: freePort(t)}
}

func (o *outage) up() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	if o.broker == nil {
		o.broker = realkafka.StartBrokerT(o.t, realkafka.BrokerConfig{Dir: o.dir, Port: o.port})
		return
	}
	require.NoError(o.t, o.broker.Restart(ctx))
}

func (o *outage) down() {
	o.t.Helper()
	require.NoError(o.t, o.broker.Kill())
}
