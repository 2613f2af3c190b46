package schemas

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxSendBodyBytes bounds the JSON that carries a payload: the largest payload in base 64, and 64 KiB.
	MaxSendBodyBytes = MaxPayloadBytes/3*4 + 64<<10
	// maxURLBytes bounds the url of a send body; whether it is one is for package endpoint to say.
	maxURLBytes = 8 << 10
)

// SendBody is what POST /v1/deliveries takes, as JSON:
//
//	{"endpoint_id": "ep_1", "event_type": "invoice.paid", "payload": {"total": 12.50}}
//
// endpoint_id or url is required, event_type, and payload or payload_base64. payload is any JSON
// value, kept byte for byte as it stands, with its spaces, escapes and number forms; its
// content_type is application/json where none is given. payload_base64 (RFC 4648
// section 4, padded) carries any bytes, also none, and wants a content_type.
type SendBody struct {
	EndpointID  string // or URL
	URL         string // unchecked but for its length
	EventType   string
	ContentType string // never empty
	Payload     []byte
}

// Event is the body's event, for an endpoint that is known by then.
func (b *SendBody) Event(endpointID, idempotencyKey string) Event {
	return Event{
		EndpointID:     endpointID,
		IdempotencyKey: idempotencyKey,
		EventType:      b.EventType,
		ContentType:    b.ContentType,
		Payload:        b.Payload,
	}
}

// ParseSendBody reads a send body. Fields that are unknown or stand twice are
// refused, as is text that is not UTF-8. The error is a *[DecodeError] and wraps
// [ErrTooLarge] where a limit is passed. The result shares no memory with b.
func ParseSendBody(b []byte) (SendBody, error) {
	var body SendBody
	err := parseBody(b, &body, map[string]*string{
		"endpoint_id": &body.EndpointID, "url": &body.URL,
		"event_type": &body.EventType, "content_type": &body.ContentType,
	})
	if err == nil {
		err = body.checkTarget()
	}
	if err != nil {
		return SendBody{}, &DecodeError{Record: "send body", Err: err}
	}
	return body, nil
}

// EventFromJSON reads an event from one line of JSON: a [SendBody] that names
// an endpoint_id, and optionally an idempotency_key. The error is a *[DecodeError].
func EventFromJSON(line []byte) (*Event, error) {
	var body SendBody
	var key string
	err := parseBody(line, &body, map[string]*string{
		"endpoint_id": &body.EndpointID, "idempotency_key": &key,
		"event_type": &body.EventType, "content_type": &body.ContentType,
	})
	if err == nil {
		err = firstError(CheckEndpointID(body.EndpointID), checkOptionalName("idempotency_key", key))
	}
	if err != nil {
		return nil, &DecodeError{Record: "event", Err: err}
	}
	event := body.Event(body.EndpointID, key)
	return &event, nil
}

// parseBody reads the object's text fields into texts and its payload into
// body, and checks what does not depend on the caller.
func parseBody(b []byte, body *SendBody, texts map[string]*string) error {
	if len(b) > MaxSendBodyBytes {
		return tooLarge("body", len(b), MaxSendBodyBytes)
	}
	if !utf8.Valid(b) {
		return errors.New("is not UTF-8; send other bytes as payload_base64")
	}
	values, err := topLevel(b)
	if err != nil {
		return err
	}
	for name, into := range texts {
		raw, given := values[name]
		if !given {
			continue
		}
		delete(values, name)
		if raw[0] != '"' {
			return &FieldError{Field: name, Problem: "is not a string"}
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return &FieldError{Field: name, Problem: "is not a string"}
		}
		if *into == "" {
			return &FieldError{Field: name, Problem: "is empty"}
		}
	}
	plain, isPlain := values["payload"]
	encoded, isEncoded := values["payload_base64"]
	delete(values, "payload")
	delete(values, "payload_base64")
	if len(values) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(values)))
		return &FieldError{Field: fmt.Sprintf("%.64q", first), Problem: "is not a field of this body"}
	}
	switch {
	case isPlain == isEncoded:
		return &FieldError{Field: "payload", Problem: "or payload_base64 must be there, and not both"}
	case isPlain:
		body.Payload = plain
		if body.ContentType == "" {
			body.ContentType = defaultContentType
		}
	case body.ContentType == "":
		return &FieldError{Field: "content_type", Problem: "is missing: payload_base64 does not say what it holds"}
	default:
		if body.Payload, err = decodeBase64(encoded); err != nil {
			return err
		}
	}
	return firstError(
		checkName("event_type", body.EventType),
		checkContentType("content_type", body.ContentType),
		checkPayload("payload", body.Payload),
	)
}

func (b *SendBody) checkTarget() error {
	switch {
	case (b.EndpointID == "") == (b.URL == ""):
		return &FieldError{Field: "endpoint_id", Problem: "or url must be there, and not both"}
	case b.URL == "":
		return CheckEndpointID(b.EndpointID)
	case len(b.URL) > maxURLBytes:
		return &FieldError{Field: "url", Problem: fmt.Sprintf("has %d bytes, the limit is %d", len(b.URL), maxURLBytes)}
	}
	return nil
}

func decodeBase64(raw json.RawMessage) ([]byte, error) {
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return nil, &FieldError{Field: "payload_base64", Problem: "is not a string"}
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, &FieldError{Field: "payload_base64", Problem: "is not padded base 64 of the standard alphabet"}
	}
	return b, nil
}

// topLevel splits an object into its fields, each value as it stands: numbers
// do not pass through floats, and nothing is written anew.
func topLevel(b []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil {
		return nil, notJSON(err)
	} else if t != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	values := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		name, ok := t.(string)
		if !ok {
			return nil, errors.New("is not a JSON object")
		}
		if _, twice := values[name]; twice {
			return nil, &FieldError{Field: fmt.Sprintf("%.64q", name), Problem: "stands twice"}
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, notJSON(err)
		}
		values[name] = value
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one JSON object")
	}
	return values, nil
}

// notJSON says where a body stops being JSON, without repeating the body.
func notJSON(err error) error {
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		if strings.Contains(bad.Error(), "max depth") { // encoding/json's own bound, of 10,000 levels
			return fmt.Errorf("exceeds the depth of 10,000 levels at byte %d; send it as payload_base64", bad.Offset)
		}
		return fmt.Errorf("is not JSON: %w (at byte %d)", err, bad.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("is not JSON: it ends too early")
	}
	return fmt.Errorf("is not JSON: %w", err)
}
