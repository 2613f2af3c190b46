package sign_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/barnabas-webhooks/barnabas/processor/sign"
)

func BenchmarkSign(b *testing.B) {
	at := time.Unix(1700000000, 0)
	for _, size := range []int{200, 10_000} {
		body := bytes.Repeat([]byte("x"), size)
		for _, keys := range [][][]byte{{key(1)}, {key(1), key(2)}} {
			b.Run(fmt.Sprintf("%d/keys=%d", size, len(keys)), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					sign.Sign("dlv_01kjp5k9vwesrtc8g9d2zj4m3n", at, body, keys)
				}
			})
		}
	}
}
