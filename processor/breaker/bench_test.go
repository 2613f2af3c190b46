package breaker_test

import (
	"testing"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/breaker"
	"github.com/barnabas-webhooks/barnabas/retry"
)

func BenchmarkBreaker_Attempt(b *testing.B) {
	br, now := breaker.New(breaker.DefaultConfig()), start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		_, ticket := br.Admit(now)
		br.Record(now, ticket, retry.OK, middle)
	}
}
