package sim_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/egress"
)

// Egress is the way from all processes to receivers: names resolve to the loopback address, the network is virtual.
type Egress struct {
	deaf atomic.Bool // the resolver answers nothing
	cut  atomic.Bool // no new connection gets an answer
}

func (e *Egress) of(h *Host) egress.Network {
	return egress.Network{Resolver: e, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if e.cut.Load() {
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
		}
		return h.DialContext(ctx, network, address)
	}}
}

// LookupNetIP is a resolver that knows every name.
func (e *Egress) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if e.deaf.Load() {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: host, IsTimeout: true}
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// An hour without a resolver, or without a way out: no endpoint is charged. What was sent meanwhile is delivered by its
// first attempt, no breaker has opened, and it did not go round without end.
func TestEgress_AnHourOut(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(*Egress) *atomic.Bool{
		"resolver": func(e *Egress) *atomic.Bool { return &e.deaf },
		"network":  func(e *Egress) *atomic.Bool { return &e.cut },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const endpoints, rounds = 10, 60
				w := NewWorldOf(t, Setting{Brokers: 1, FetchWait: time.Second})
				receiver := w.Receiver(Answers(http.StatusNoContent))
				p := w.Start()
				id := func(i int) string { return fmt.Sprintf("ep%d", i) }
				for i := range endpoints {
					w.Endpoint(id(i), strings.Replace(receiver.URL, "localhost", fmt.Sprintf("h%d.example", i), 1))
				}
				send := func(round int) {
					for i := range endpoints {
						w.Produce(id(i), "", fmt.Sprintf(`{"n":%d}`, round*endpoints+i))
					}
				}
				send(0)
				time.Sleep(2 * time.Minute) // connections have been idle for long enough to be closed
				require.Len(t, receiver.Posts(), endpoints)

				of(&w.egress).Store(true)
				for round := 1; round <= rounds; round++ {
					send(round)
					time.Sleep(time.Minute)
				}
				require.Len(t, receiver.Posts(), endpoints)
				require.InDelta(t, 1, p.gauge("barnabas_egress_unhealthy", name), 0)
				of(&w.egress).Store(false)
				time.Sleep(20 * time.Minute) // for a quarter of an hour at most, with what the tier adds

				require.InDelta(t, 0, p.gauge("barnabas_egress_unhealthy", name), 0)
				require.Len(t, receiver.Posts(), (rounds+1)*endpoints)
				charged := 0
				for _, a := range w.Attempts() {
					if a.Decision != "delivered" {
						charged++
					}
				}
				require.LessOrEqual(t, charged, 2, "the first two that a network does not reach may be their own fault")
				require.Empty(t, w.Topic(w.Catalogue().Breakers()))
				require.Empty(t, w.DeadLetters())
				waits := 0
				for i := range len(w.Catalogue().Tiers) {
					waits += len(w.Topic(w.Catalogue().Tier(i)))
				}
				require.Less(t, waits, rounds*endpoints*12, "half an hour on average")
				require.NoError(t, p.Stop())
			})
		})
	}
}
