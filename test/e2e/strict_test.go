package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

// sequence is a receiver of numbers. Every seventh of them is refused a few times.
type sequence struct {
	mu    sync.Mutex // guards what follows
	posts map[string][]int
	tries map[string]int
}

func (s *sequence) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	n, err := strconv.Atoi(string(body))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts[req.URL.Path] = append(s.posts[req.URL.Path], n)
	key := req.URL.Path + string(body)
	if s.tries[key]++; err != nil || n%7 == 3 && s.tries[key] <= 1+n%2 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// upTo says whether the endpoints have all got the number.
func (s *sequence) upTo(n, endpoints int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for path, posts := range s.posts {
		if last := posts[len(posts)-1]; last == n && (n%7 != 3 || s.tries[path+strconv.Itoa(n)] > 1+n%2) {
			done++
		}
	}
	return done == endpoints
}

// beyond says whether some endpoint has got more than a number.
func (s *sequence) beyond(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, posts := range s.posts {
		if posts[len(posts)-1] > n {
			return true
		}
	}
	return false
}

// Strict endpoints through kills, refusals and, on Kafka, a compaction of their lines: what the receivers see goes up by
// one at a time, and nothing but the present one is ever repeated.
func TestStrict_OrderThroughKills(t *testing.T) {
	t.Parallel()
	s := newSite(t, openBroker(t), "")
	p := s.serve("--set", "retry.lifetime=10m")
	if onKafka {
		s.compactLines()
	}
	const endpoints, rounds, each = 3, 3, 20
	r := &sequence{posts: map[string][]int{}, tries: map[string]int{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	for e := range endpoints {
		_, err := s.client.PutEndpoint(t.Context(), api.EndpointSpec{
			ID: fmt.Sprintf("ep_%d", e), URL: fmt.Sprintf("%s/%d", server.URL, e), Secret: signingSecret, Order: "strict",
		})
		require.NoError(t, err)
	}
	producer := s.kafka(kgo.DefaultProduceTopic(s.catalogue().Events()))
	for round := range rounds {
		for i := range each {
			for e := range endpoints {
				require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{
					Key: fmt.Appendf(nil, "ep_%d", e), Value: strconv.AppendInt(nil, int64(round*each+i), 10),
					Headers: []kgo.RecordHeader{{Key: "event-type", Value: []byte("t")}},
				}).FirstErr())
			}
			if i == each/2 && round < rounds-1 {
				await(t, "a part of the round", func() bool { return r.beyond(round*each + each/8) })
				p.kill()
				p = s.serve("--set", "retry.lifetime=10m")
			}
		}
		require.Eventually(t, func() bool { return r.upTo((round+1)*each-1, endpoints) }, 3*patience, 50*time.Millisecond, "the round's end")
		if onKafka && round == 0 { // one record for each ending was written, at least
			await(t, "the lines to be compacted", func() bool { return s.visible(s.catalogue().Lines()) < endpoints*each/2 })
			t.Logf("lines: %d records are left", s.visible(s.catalogue().Lines()))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, posts := range r.posts {
		last := -1
		for i, n := range posts {
			require.True(t, n == last || n == last+1, "%s: post %d is of %d, after one of %d", path, i, n, last)
			last = n
		}
	}
}

// compactLines has the broker compact the topic of lines as it is written: a segment lasts a second, and all but
// the last of each partition are compacted.
func (s *site) compactLines() {
	s.t.Helper()
	set := func(name, value string) kadm.AlterConfig { return kadm.AlterConfig{Name: name, Value: &value} }
	answers, err := kadm.NewClient(s.kafka()).AlterTopicConfigs(s.t.Context(), []kadm.AlterConfig{
		set("segment.ms", "1000"), set("min.cleanable.dirty.ratio", "0.001"), set("max.compaction.lag.ms", "1000"),
	}, s.catalogue().Lines())
	require.NoError(s.t, err)
	for _, a := range answers {
		require.NoError(s.t, a.Err)
	}
}

// visible counts the records that a reader of committed ones finds in a topic.
func (s *site) visible(topic string) int {
	s.t.Helper()
	ends, err := kadm.NewClient(s.kafka()).ListEndOffsets(s.t.Context(), topic)
	require.NoError(s.t, err)
	reader := s.kafka(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	n, left := 0, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := reader.PollFetches(s.t.Context())
		require.NoError(s.t, fetches.Err())
		fetches.EachRecord(func(rec *kgo.Record) {
			if !rec.Attrs.IsControl() {
				n++
			}
			if rec.Offset >= left[rec.Partition]-1 {
				delete(left, rec.Partition)
			}
		})
	}
	return n
}
