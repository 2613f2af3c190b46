package dlq

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// view is a letter as JSON. The fields after Content are those of show alone.
type view struct {
	Ref            string     `json:"ref"` // partition/offset in the dlq topic
	DeliveryID     string     `json:"delivery_id,omitempty"`
	EndpointID     string     `json:"endpoint_id,omitempty"`
	Tenant         string     `json:"tenant,omitempty"`
	EventType      string     `json:"event_type,omitempty"`
	Reason         string     `json:"reason,omitempty"`
	Detail         string     `json:"detail,omitempty"`
	DeadAt         time.Time  `json:"dead_at,omitzero"`
	AcceptedAt     time.Time  `json:"accepted_at,omitzero"`
	Attempts       int        `json:"attempts"` // over all runs
	FirstAttemptAt time.Time  `json:"first_attempt_at,omitzero"`
	LastAttemptAt  time.Time  `json:"last_attempt_at,omitzero"`
	LastClass      string     `json:"last_class,omitempty"`
	LastStatus     int        `json:"last_status,omitempty"`
	LastError      string     `json:"last_error,omitempty"`
	Replays        int        `json:"replays"`
	Replayed       *Mark      `json:"replayed,omitempty"`
	Origin         string     `json:"origin,omitempty"` // topic/partition/offset of the event
	Source         string     `json:"source,omitempty"` // of the record read when it died
	PayloadBytes   int        `json:"payload_bytes"`
	RawBytes       int        `json:"raw_bytes,omitempty"`
	Unreadable     string     `json:"unreadable,omitempty"` // why the dlq record could not be decoded
	Content        *viewExtra `json:"content,omitempty"`
}

type viewExtra struct {
	ContentType    string       `json:"content_type,omitempty"`
	IdempotencyKey string       `json:"idempotency_key,omitempty"`
	TraceParent    string       `json:"traceparent,omitempty"`
	TraceState     string       `json:"tracestate,omitempty"`
	RunAttempts    int          `json:"attempts_in_last_run"`
	RunHolds       int          `json:"holds_in_last_run"`
	RunStartedAt   time.Time    `json:"run_started_at,omitzero"`
	LastExcerpt    *blob        `json:"last_excerpt,omitempty"`
	Payload        *blob        `json:"payload,omitempty"`
	RawKey         *blob        `json:"raw_key,omitempty"`
	Raw            *blob        `json:"raw,omitempty"`
	RawHeaders     []headerView `json:"raw_headers,omitempty"`
	RecordHeaders  []headerView `json:"record_headers,omitempty"`
}

type headerView struct {
	Key   string `json:"key"`
	Value blob   `json:"value"`
}

// blob is bytes as text where they are text that a terminal can show as it is,
// else in base64: foreign bytes must not move anybody's cursor.
type blob []byte

func (b blob) text() (string, bool) {
	if !utf8.Valid(b) {
		return "", false
	}
	s := string(b)
	ok := strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n' && r != '\t' && r != '\r'
	}) < 0
	return s, ok && !strings.Contains(s, "\r\r") && !loneReturn(s)
}

// loneReturn finds a carriage return that does not end a line: it would
// overwrite what stands before it.
func loneReturn(s string) bool {
	return strings.Contains(strings.ReplaceAll(s, "\r\n", "\n"), "\r")
}

func (b blob) MarshalJSON() ([]byte, error) {
	if s, ok := b.text(); ok {
		return json.Marshal(struct {
			Text string `json:"text"`
		}{s})
	}
	return json.Marshal(struct {
		Base64 string `json:"base64"`
	}{base64.StdEncoding.EncodeToString(b)})
}

func (b blob) String() string {
	if s, ok := b.text(); ok {
		return s
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

func viewOf(l *Letter, whole bool) view {
	d := &l.Delivery
	h := &d.History
	v := view{
		Ref: l.Ref(), DeliveryID: d.ID, EndpointID: d.EndpointID, Tenant: d.Tenant, EventType: d.EventType,
		Reason: l.Reason, Detail: l.Detail, DeadAt: l.DeadAt, AcceptedAt: d.AcceptedAt,
		Attempts: h.TotalAttempts, FirstAttemptAt: h.FirstAttemptAt, LastAttemptAt: h.LastAttemptAt,
		LastClass: h.LastClass, LastStatus: h.LastStatus, LastError: h.LastError,
		Replays: d.Replays, Replayed: l.Replayed,
		Origin: place(d.Origin), Source: place(l.Source),
		PayloadBytes: len(d.Payload), RawBytes: len(l.Raw),
	}
	if l.Err != nil {
		v.Unreadable = l.Err.Error()
	}
	if !whole {
		return v
	}
	v.Content = &viewExtra{
		ContentType: d.ContentType, IdempotencyKey: d.IdempotencyKey, TraceParent: d.TraceParent, TraceState: d.TraceState,
		RunAttempts: d.Attempts, RunHolds: d.Holds, RunStartedAt: d.RunStartedAt,
		LastExcerpt: blobOf(h.LastExcerpt),
		RawKey:      blobOf(l.RawKey), Raw: blobOf(l.Raw),
		RawHeaders: headerViews(l.RawHeaders), RecordHeaders: headerViews(l.Headers),
	}
	if l.Err == nil && !Undecodable(&l.DeadLetter) {
		payload := blob(d.Payload) // an empty payload is one too
		v.Content.Payload = &payload
	}
	return v
}

func blobOf(b []byte) *blob {
	if b == nil {
		return nil
	}
	x := blob(b)
	return &x
}

func headerViews(hs []schemas.Header) []headerView {
	var out []headerView
	for _, h := range hs {
		out = append(out, headerView{h.Key, h.Value})
	}
	return out
}

func place(c schemas.Coordinates) string {
	if c.Topic == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", c.Topic, c.Partition, c.Offset)
}

// cell makes foreign text fit for one table cell of at most width runes.
func cell(s string, width int) string {
	if s == "" {
		return "-"
	}
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == width-1 && utf8.RuneCountInString(s) > width {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = '·'
		}
		b.WriteRune(r)
		n++
	}
	return b.String()
}

// age is how long ago t was, in the two largest units.
func age(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}
