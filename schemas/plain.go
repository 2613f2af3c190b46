package schemas

import (
	"errors"
	"strings"
)

// Names of the headers that are read, as package topics publishes them.
const (
	headerEventType      = "event-type"
	headerContentType    = "content-type"
	headerIdempotencyKey = "idempotency-key"
	headerTraceParent    = "traceparent"
	headerTraceState     = "tracestate"

	headerCEType        = "ce_type"
	headerCESource      = "ce_source"
	headerCEID          = "ce_id"
	headerCESpecVersion = "ce_specversion"
	headerCETraceParent = "ce_traceparent"
	headerCETraceState  = "ce_tracestate"
)

func readPlain(key, value []byte, headers []Header) (Event, error) {
	event, err := bare(key, value, headers)
	if err != nil {
		return Event{}, err
	}
	if event.EventType, err = want(headers, headerEventType); err != nil {
		return Event{}, undecodable(err)
	}
	if event.IdempotencyKey, _, err = lookUp(headers, headerIdempotencyKey); err != nil {
		return Event{}, undecodable(err)
	}
	return checked(event, headerEventType)
}

// readCloudEvent reads the Kafka protocol binding's binary content mode
// (CloudEvents 1.0.2, kafka-protocol-binding section 3.2): attributes are headers with the
// prefix ce_, but for datacontenttype, which is content-type.
func readCloudEvent(key, value []byte, headers []Header) (Event, error) {
	event, err := bare(key, value, headers)
	if err != nil {
		return Event{}, err
	}
	version, err := want(headers, headerCESpecVersion)
	if err == nil && version != "1.0" {
		err = &FieldError{Field: "header " + headerCESpecVersion, Problem: "is not 1.0"}
	}
	if err != nil {
		return Event{}, undecodable(err)
	}
	source, sourceErr := want(headers, headerCESource)
	id, idErr := want(headers, headerCEID)
	eventType, typeErr := want(headers, headerCEType)
	own, given, ownErr := lookUp(headers, headerIdempotencyKey)
	if err := firstError(sourceErr, idErr, typeErr, ownErr); err != nil {
		return Event{}, undecodable(err)
	}
	event.EventType = eventType
	if event.IdempotencyKey = own; !given {
		event.IdempotencyKey = source + "#" + id
		if err := checkOptionalName("ce_source#ce_id", event.IdempotencyKey); err != nil {
			return Event{}, undecodable(err)
		}
	}
	if event.TraceParent == "" {
		event.TraceParent, event.TraceState = traceContext(headers, headerCETraceParent, headerCETraceState)
	}
	return checked(event, headerCEType)
}

// bare is what plain records and CloudEvents have in common.
func bare(key, value []byte, headers []Header) (Event, error) {
	if len(key) == 0 {
		return Event{}, undecodable(&FieldError{Field: "record key", Problem: "is missing: it must be the endpoint id"})
	}
	if value == nil {
		return Event{}, undecodable(errors.New("the record's value is null: there is no payload"))
	}
	contentType, _, err := lookUp(headers, headerContentType)
	if err != nil {
		return Event{}, undecodable(err)
	}
	event := Event{EndpointID: string(key), ContentType: contentType, Payload: value}
	event.TraceParent, event.TraceState = traceContext(headers, headerTraceParent, headerTraceState)
	return event, nil
}

// checked holds the event to its rules and names what is wrong as the producer wrote it.
func checked(event Event, typeHeader string) (Event, error) {
	err := event.check()
	if err == nil {
		return event, nil
	}
	if bad, ok := errors.AsType[*FieldError](err); ok {
		names := map[string]string{
			"endpoint_id":     "record key",
			"event_type":      "header " + typeHeader,
			"content_type":    "header " + headerContentType,
			"idempotency_key": "header " + headerIdempotencyKey,
		}
		if name, ok := names[bad.Field]; ok {
			err = &FieldError{Field: name, Problem: bad.Problem, Err: bad.Err}
		}
	}
	return Event{}, undecodable(err)
}

// traceContext reads a pair that may be passed on. Repeated, they are no trace
// context at all, and the state means nothing without the parent.
func traceContext(headers []Header, parentName, stateName string) (parent, state string) {
	parent, _, err := lookUp(headers, parentName)
	if parent = trace(parent); err != nil || parent == "" {
		return "", ""
	}
	if state, _, err = lookUp(headers, stateName); err != nil {
		return parent, ""
	}
	return parent, trace(state)
}

func has(headers []Header, name string) bool {
	for _, h := range headers {
		if h.Key == name {
			return true
		}
	}
	return false
}

// lookUp is a header's value; given says whether it is there. It must not be
// empty and must not stand twice: which of two would count?
func lookUp(headers []Header, name string) (value string, given bool, err error) {
	for _, h := range headers {
		if h.Key != name {
			continue
		}
		if given {
			return "", true, &FieldError{Field: "header " + name, Problem: "stands more than once"}
		}
		given = true
		value = word(h.Value)
	}
	if given && strings.TrimSpace(value) == "" {
		return "", true, &FieldError{Field: "header " + name, Problem: "is empty"}
	}
	return value, given, nil
}

func want(headers []Header, name string) (string, error) {
	value, given, err := lookUp(headers, name)
	if err == nil && !given {
		err = &FieldError{Field: "header " + name, Problem: "is missing"}
	}
	return value, err
}
