package claimstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/processor/claimstore"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// BenchmarkVerdict is one verdict of a unit that remembers a million keys, half of them of the window before: of a
// key that is new, and of one that is a repeat.
//
//	go test -run '^$' -bench Verdict ./processor/claimstore
func BenchmarkVerdict(b *testing.B) {
	const present = 1_000_000
	start := time.Now().Truncate(window).Add(-time.Hour)
	for _, name := range []string{"memory", "disk"} {
		u := claim.NewMemory()
		if name == "disk" {
			o := options(vfs.Default)
			o.Directory, o.Cache = b.TempDir(), claimstore.DefaultConfig().Cache
			s, err := claimstore.Open(o)
			require.NoError(b, err)
			b.Cleanup(func() { _ = s.Close() })
			u, err = s.Open(1, log)
			require.NoError(b, err)
		}
		a := claim.NewArbiter(window, u)
		offset := int64(0)
		judge := func(b *testing.B, n int, want schemas.Verdict) {
			b.Helper()
			at := start.Add(time.Duration(min(n, present)) * 2 * time.Hour / present) // over the edge of two windows
			c, err := a.Judge(claim.Question{
				EndpointID: "ep_1", Key: fmt.Sprintf("order-%d", n), DeliveryID: schemas.MintDeliveryID(),
				ContentHash: make([]byte, 16), Offset: offset, At: at,
			})
			if err != nil || c.Verdict != want {
				b.Fatal(c.Verdict, err)
			}
			if err := a.Covered(offset, offset+1); err != nil {
				b.Fatal(err)
			}
			offset++
		}
		next := 0
		for ; next < present; next++ {
			judge(b, next, schemas.VerdictFirst)
		}
		b.Run(name+"/new", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				judge(b, next, schemas.VerdictFirst)
				next++
			}
		})
		b.Run(name+"/repeat", func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				judge(b, i*7919%present, schemas.VerdictDuplicate)
			}
		})
	}
}
