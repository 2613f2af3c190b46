package e2e_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// C-129: records were deleted past the committed offset while nothing ran. It is said, in the log, by the metric and by a dead
// letter; work goes on at the earliest that is left, and nothing lags, also where nothing is left.
func TestGap_RecordsDeletedWhileStopped(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]int{"some are left": 3, "none is left": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, openBroker(t), "")
			p := s.serve()
			r, url := s.receiver(listen.Options{})
			s.endpoint("ep_ok", url)
			producer := s.kafka(kgo.DefaultProduceTopic(s.catalogue().Events()))
			send := func(n int) {
				t.Helper()
				for range n {
					require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{
						Key: []byte("ep_ok"), Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: "event-type", Value: []byte("t")}},
					}).FirstErr())
				}
			}
			send(5)
			attempts := s.attempts()
			await(t, "the first ones, settled", func() bool { return len(attempts()) == 5 })
			require.Zero(t, p.terminate())

			send(7)
			admin := kadm.NewClient(s.kafka())
			ends, err := admin.ListEndOffsets(t.Context(), s.catalogue().Events())
			require.NoError(t, err)
			_, err = admin.DeleteRecords(t.Context(), ends.Offsets())
			require.NoError(t, err)
			send(left)
			p = s.serve()
			letters := s.deadLetters()
			await(t, "the dead letter that says so", func() bool { return len(letters()) == 1 })
			require.Equal(t, schemas.ReasonRemoved, letters()[0].Reason)
			require.Contains(t, p.text(), "gap in the log")
			counted := 0
			for _, line := range strings.Split(get(t, s.metrics), "\n") {
				if strings.HasPrefix(line, "barnabas_log_gap_records_total{") && strings.HasSuffix(line, " 7") {
					counted++
				}
			}
			require.Equal(t, 1, counted)
			await(t, "what is left, and nothing to lag", func() bool {
				lags, err := topics.Lag(t.Context(), admin, s.prefix+"group", s.catalogue())
				require.NoError(t, err)
				for _, l := range lags {
					if l.Topic == s.catalogue().Events() && (l.Lag != 0 || l.Gap != 0) {
						return false
					}
				}
				return r.Stats().Delivered == 5+left
			})
			send(1)
			await(t, "what comes later", func() bool { return r.Stats().Delivered == 6+left })
			require.Zero(t, r.Stats().Repeats)
		})
	}
}
