package listen

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// line is a request as JSON. Names are those of the log of Barnabas.
type line struct {
	At         time.Time `json:"at"`
	DeliveryID string    `json:"delivery_id"`
	EventType  string    `json:"event_type"`
	Attempt    int       `json:"attempt"`
	Verified   *bool     `json:"verified"` // null: there was no secret to check with
	Problem    string    `json:"problem,omitempty"`
	Size       int       `json:"size"`
	Status     int       `json:"status"`
	Repeat     bool      `json:"repeat"`
	Body       *string   `json:"body,omitempty"`        // when it is text
	BodyBase64 []byte    `json:"body_base64,omitempty"` // when it is not
}

// print writes one line; a failing writer is no reason to fail a delivery. The caller holds the mutex.
func (r *Receiver) print(got Request) {
	if r.opt.JSON {
		_, _ = r.opt.Out.Write(r.json(got))
		return
	}
	_, _ = r.opt.Out.Write([]byte(r.text(got)))
}

func (r *Receiver) json(got Request) []byte {
	l := line{
		At: got.At, DeliveryID: got.DeliveryID, EventType: got.EventType, Attempt: got.Attempt,
		Problem: got.Problem, Size: len(got.Body), Status: got.Status, Repeat: got.Repeat,
	}
	if got.Checked {
		l.Verified = &got.Verified
	}
	if r.opt.Body {
		if text := string(got.Body); utf8.ValidString(text) {
			l.Body = &text
		} else {
			l.BodyBase64 = got.Body
		}
	}
	out, err := json.Marshal(l)
	if err != nil { // no field can fail
		return nil
	}
	return append(out, '\n')
}

func (r *Receiver) text(got Request) string {
	verified := "not checked"
	switch {
	case got.Verified:
		verified = "verified"
	case got.Checked:
		verified = "NOT VERIFIED (" + got.Problem + ")"
	}
	attempt := "attempt " + strconv.Itoa(got.Attempt)
	if got.Attempt == 0 {
		attempt = "attempt ?"
	}
	repeat := ""
	if got.Repeat {
		repeat = "  repeat"
	}
	out := fmt.Sprintf("%s  %d  %s  %s  %s  %s  %d bytes%s\n", got.At.Format("15:04:05.000"), got.Status,
		show(got.DeliveryID), show(got.EventType), attempt, verified, len(got.Body), repeat)
	if r.opt.Body {
		out += indent(got.Body)
	}
	return out
}

// show makes any header value safe for a terminal.
func show(s string) string {
	const limit = 128
	if s == "" {
		return "-"
	}
	if len(s) > limit {
		s = s[:limit] + "..."
	}
	if strings.IndexFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

// indent shows a body below its line; control characters but tabs and line ends are quoted.
func indent(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	if !utf8.Valid(body) {
		return fmt.Sprintf("    (%d bytes that are not text)\n", len(body))
	}
	var b strings.Builder
	for l := range strings.Lines(string(body)) {
		l = strings.TrimRight(l, "\r\n")
		if strings.IndexFunc(l, func(c rune) bool { return c != '\t' && !unicode.IsPrint(c) }) >= 0 {
			l = strconv.Quote(l)
		}
		b.WriteString("    " + l + "\n")
	}
	return b.String()
}
