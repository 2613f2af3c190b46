package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
	"github.com/barnabas-webhooks/barnabas/internal/listen"
	"github.com/barnabas-webhooks/barnabas/processor/tracker"
)

// hanging takes requests and answers none until it is released.
type hanging struct {
	requests atomic.Int64
	answered atomic.Int64
	release  chan struct{}
}

func (h *hanging) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body) // once it is read, the end of the connection is seen
	h.requests.Add(1)
	select {
	case <-h.release:
		h.answered.Add(1)
	case <-req.Context().Done():
	}
}

// One partition, one endpoint whose receiver hangs for the whole 15 s that an
// attempt may take, 999 healthy ones: the healthy ones' deliveries go on beside
// it, nothing but its own is unsettled meanwhile, and the committed offset passes
// it, although it never answers (invariants 7 and 10, C-107).
func TestIsolation_OneHangsInTheOnlyPartition(t *testing.T) {
	t.Parallel()
	const healthy, rounds = 999, 3
	s := newSite(t, openBroker(t), "")
	s.serve("--set", "topics.partitions=1", "--set", "timeouts.headers=15s", "--set", "timeouts.total=15s", "--set", "timeouts.max_total=15s",
		"--set", "processor.drain_timeout=20s", "--set", "processor.rebalance_timeout=40s", "--set", "retry.lifetime=10m")
	r, url := s.receiver(listen.Options{})
	hang := &hanging{release: make(chan struct{})}
	server := httptest.NewServer(hang)
	t.Cleanup(server.Close)
	s.endpoint("ep_hangs", server.URL)
	var saving errgroup.Group
	saving.SetLimit(16)
	for i := range healthy {
		saving.Go(func() error {
			_, err := s.client.PutEndpoint(t.Context(), api.EndpointSpec{ID: fmt.Sprintf("ep_%d", i), URL: url, Secret: signingSecret})
			return err
		})
	}
	require.NoError(t, saving.Wait())

	producer := s.kafka(kgo.DefaultProduceTopic(s.catalogue().Events()))
	send := func(hangs bool) {
		t.Helper()
		event := func(id string) *kgo.Record {
			return &kgo.Record{Key: []byte(id), Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: "event-type", Value: []byte("t")}}}
		}
		var records []*kgo.Record
		if hangs {
			records = append(records, event("ep_hangs"))
		}
		for i := range healthy {
			records = append(records, event(fmt.Sprintf("ep_%d", i)))
		}
		require.NoError(t, producer.ProduceSync(t.Context(), records...).FirstErr())
	}
	for range rounds {
		send(true)
	}
	position := s.positions()
	await(t, "the healthy ones", func() bool { return r.Stats().Delivered == rounds*healthy && hang.requests.Load() > 0 })
	await(t, "all but those of the endpoint that hangs to be settled", func() bool { _, unsettled := position(); return unsettled <= rounds })
	require.Zero(t, hang.answered.Load())
	await(t, "the committed offset to pass the endpoint that hangs", func() bool { committed, _ := position(); return committed == rounds*(healthy+1) })

	// It still hangs, and the others still go on.
	send(false)
	await(t, "the healthy ones again", func() bool { return r.Stats().Delivered == (rounds+1)*healthy })
	await(t, "the committed offset at the end", func() bool {
		committed, unsettled := position()
		return committed == rounds*(healthy+1)+healthy && unsettled == 0
	})
	require.Zero(t, hang.answered.Load())
	require.Zero(t, r.Stats().Repeats)

	close(hang.release)
	await(t, "those of the endpoint that hung", func() bool { return hang.answered.Load() == rounds })
}

// positions says where the group stands in partition 0 of events, and how many
// records from there on are not settled, by the map in the commit.
func (s *site) positions() func() (committed int64, unsettled int) {
	s.t.Helper()
	admin := kadm.NewClient(s.kafka())
	return func() (int64, int) {
		s.t.Helper()
		ends, err := admin.ListEndOffsets(s.t.Context(), s.catalogue().Events())
		require.NoError(s.t, err)
		end, ok := ends.Lookup(s.catalogue().Events(), 0)
		require.True(s.t, ok)
		offsets, err := admin.FetchOffsets(s.t.Context(), s.prefix+"group")
		require.NoError(s.t, err)
		o, ok := offsets.Lookup(s.catalogue().Events(), 0)
		if !ok {
			return 0, int(end.Offset)
		}
		at, unsettled := tracker.New(o.At, o.Metadata), 0
		for offset := o.At; offset < end.Offset; offset++ {
			if at.Open(offset) {
				unsettled++
			}
		}
		return o.At, unsettled
	}
}
