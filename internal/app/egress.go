package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/egress"
)

// watchEgress makes it seen when this side of the network is out of order: deliveries are held then, and nothing is
// charged to endpoints.
func (a *App) watchEgress() {
	health := a.dialer.Health()
	health.OnChange(func(c egress.Cause, err error) {
		if err != nil {
			a.log.Error("egress is unhealthy: deliveries are held, no attempt is spent", obs.KeyCause, string(c), obs.KeyError, err)
			return
		}
		a.log.Info("egress is healthy again", obs.KeyCause, string(c))
	})
	for _, c := range egress.Causes() {
		a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "barnabas", Name: "egress_unhealthy", ConstLabels: prometheus.Labels{"cause": string(c)},
			Help: "1 while the resolver, the network or the egress proxy of this process is out of order and deliveries are held for it.",
		}, func() float64 {
			if health.Down(c) {
				return 1
			}
			return 0
		}))
	}
}
