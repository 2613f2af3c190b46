package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
)

// maxSmallBody bounds the bodies of everything but deliveries.
const maxSmallBody = 64 << 10

// readBody reads a JSON body of at most limit bytes. A length that is announced above it is refused before anything
// is read; one that is not announced, or is a lie, when the limit is passed (C-014). The bytes are held against the
// budgets of the tenant and of all until release is called.
func (a *API) readBody(
	w http.ResponseWriter, r *http.Request, who principal, limit int64,
) (body []byte, release func(), err error) {
	if ct := r.Header.Get("Content-Type"); ct != "" {
		if kind, _, err := mime.ParseMediaType(ct); err != nil || kind != "application/json" {
			return nil, nil, unsupported("The body must be application/json; a payload of another type goes into " +
				"payload_base64 with content_type.")
		}
	} else if r.ContentLength != 0 && len(a.keys.keys) == 0 {
		// Without keys, the content type is what keeps other sites' forms out: a browser asks before it sends JSON.
		return nil, nil, unsupported("Content-Type must be application/json.")
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, nil, unsupported("A compressed body is not taken.")
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge(limit, r.ContentLength)
	}
	room := r.ContentLength
	if room < 0 {
		room = limit
	}
	if err := who.gate.hold(room); err != nil {
		return nil, nil, err
	}
	if !a.bytes.TryAcquire(room) {
		who.gate.bytes.Release(room)
		return nil, nil, overloaded("Too many bytes of requests are being handled; try again.")
	}
	release = func() { a.bytes.Release(room); who.gate.bytes.Release(room) }
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead) // MinRead: so that ReadFrom finds the end without growing
	}
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		release()
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return nil, nil, tooLarge(limit, 0)
		}
		return nil, nil, badRequest("The body ended before its announced length, or could not be read in time.")
	}
	return buf.Bytes(), release, nil
}

// decodeBody reads a small JSON body strictly: one document, known fields only. An empty body leaves v as it is if
// optional.
func (a *API) decodeBody(w http.ResponseWriter, r *http.Request, who principal, v any, optional bool) error {
	body, release, err := a.readBody(w, r, who, maxSmallBody)
	if err != nil {
		return err
	}
	defer release()
	if len(bytes.TrimSpace(body)) == 0 {
		if optional {
			return nil
		}
		return badRequest("The body is empty; a JSON object is needed.")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return badRequest(jsonReason(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return badRequest("There is something after the JSON object.")
	}
	return nil
}

// jsonReason says what is wrong without quoting values, which may be secrets.
func jsonReason(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var p *Problem
	switch {
	case errors.As(err, &p):
		return p.Detail
	case errors.As(err, &kind):
		// Value is the kind, and of a number the number too.
		return "The field " + kind.Field + " has the wrong type: a JSON " + strings.Fields(kind.Value + " value")[0] + "."
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return "The body is not valid JSON."
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return "The field " + strings.TrimPrefix(err.Error(), "json: unknown field ") + " is unknown."
	}
	return "The body is not what is needed here."
}
