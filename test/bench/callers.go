package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-webhooks/barnabas/internal/api"
)

// callers send events to the API over connections that are kept open. Not through the API's client: it would parse and
// build more than a careful producer must.
type callers struct {
	http  *http.Client
	urls  []string // of the nodes
	token string
	most  int // calls at a time
	next  atomic.Uint64
}

// callTimeout bounds one call.
const callTimeout = 30 * time.Second

func (s *site) newCallers(most int, nodes ...*node) *callers {
	c := &callers{
		http: &http.Client{
			Timeout: callTimeout, Transport: &http.Transport{MaxIdleConns: most * len(nodes), MaxIdleConnsPerHost: most},
		},
		token: s.token, most: most,
	}
	for _, n := range nodes {
		c.urls = append(c.urls, "http://"+n.api+"/v1/deliveries")
	}
	return c
}

// call is one event to send.
type call struct {
	endpoint, key string
	payload       []byte
}

// answer is what came of a call.
type answer struct {
	took   time.Duration
	status int
	said   api.Status // accepted, duplicate or pending, of a 2xx
}

// send makes one call, at the nodes in turn.
func (c *callers) send(ctx context.Context, e call) (answer, error) {
	var body bytes.Buffer
	body.Grow(len(e.payload) + 128)
	fmt.Fprintf(&body, `{"endpoint_id":%q,"event_type":%q,"payload":`, e.endpoint, eventType)
	body.Write(e.payload)
	body.WriteByte('}')
	url := c.urls[c.next.Add(1)%uint64(len(c.urls))]
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &body)
	if err != nil {
		return answer{}, fmt.Errorf("call the API: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set(api.HeaderIdempotencyKey, e.key)
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("call the API: %w", err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return answer{}, fmt.Errorf("call the API: %w", err)
	}
	a := answer{took: time.Since(began), status: resp.StatusCode}
	if a.status/100 == 2 {
		var accepted api.Accepted
		if err := json.Unmarshal(text, &accepted); err != nil {
			return answer{}, fmt.Errorf("call the API: %w", err)
		}
		a.said = accepted.Status
	}
	return a, nil
}

// answers are those of many calls. Safe for concurrent use.
type answers struct {
	mu      sync.Mutex // guards what follows
	took    []time.Duration
	by      map[api.Status]int
	refused int
}

func (a *answers) note(one answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one.status/100 != 2 {
		a.refused++
		return
	}
	if a.by == nil {
		a.by = map[api.Status]int{}
	}
	a.by[one.said]++
	a.took = append(a.took, one.took)
}

// figures are of the answers with 2xx.
func (a *answers) figures() Figures {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := QuantilesOf(a.took)
	return Figures{
		Sent: float64(len(a.took)), P50: q.P50, P99: q.P99, Max: q.Max,
		Pending: float64(a.by[api.StatusPending]), Refused: float64(a.refused),
	}
}

// calls are made beside their caller.
type calls struct {
	*callers
	answers answers
	group   errgroup.Group
	failed  atomic.Pointer[error]
}

func (c *callers) begin() *calls {
	all := &calls{callers: c}
	all.group.SetLimit(c.most)
	return all
}

// call begins one, once there are few enough under way, and notes its answer if it counts.
func (c *calls) call(ctx context.Context, e call, counts bool) {
	c.group.Go(func() error {
		a, err := c.send(ctx, e)
		switch {
		case err != nil:
			c.failed.CompareAndSwap(nil, &err)
		case counts:
			c.answers.note(a)
		}
		return err
	})
}

// broken is the first failure, if there was one.
func (c *calls) broken() error {
	if failed := c.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// finish waits for all answers.
func (c *calls) finish() error {
	defer c.http.CloseIdleConnections()
	return c.group.Wait()
}
