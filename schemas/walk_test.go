package schemas_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// walk goes over one datum at the start of b by its schema and returns what follows it. It is how far a datum
// must hold to Avro's specification beyond what goavro asks of it: goavro believes an item count and allocates
// for it, reads numbers of any length and drops what is over, and does not look into strings. Each of these is
// refused here and by the code. No encoder writes any of them, so that nothing is lost by it.
func (a *authority) walk(schema any, b []byte) ([]byte, error) {
	switch s := schema.(type) {
	case []any:
		n, rest, err := varint(b)
		if err != nil || n < 0 || n >= int64(len(s)) {
			return nil, fmt.Errorf("union branch %d, error %w", n, err)
		}
		return a.walk(s[n], rest)
	case map[string]any:
		if s["type"] == "array" {
			return a.walkArray(s["items"], b)
		}
		a.named["barnabas."+s["name"].(string)] = s
		var err error
		for _, f := range s["fields"].([]any) {
			if b, err = a.walk(f.(map[string]any)["type"], b); err != nil {
				return nil, err
			}
		}
		return b, nil
	}
	switch schema {
	case "null":
		return b, nil
	case "int", "long":
		n, rest, err := varint(b)
		if schema == "int" && n != int64(int32(n)) {
			return nil, errors.New("no 32-bit number")
		}
		return rest, err
	case "double":
		if len(b) < 8 {
			return nil, errors.New("short")
		}
		return b[8:], nil
	case "bytes", "string":
		n, rest, err := varint(b)
		if err != nil || n < 0 || n > int64(len(rest)) || schema == "string" && !utf8.Valid(rest[:n]) {
			return nil, fmt.Errorf("%d of %d bytes, error %w", n, len(rest), err)
		}
		return rest[n:], nil
	}
	return a.walk(a.named[schema.(string)], b)
}

func (a *authority) walkArray(items any, b []byte) ([]byte, error) {
	for total := int64(0); ; {
		n, rest, err := varint(b)
		if err != nil || n == 0 {
			return rest, err
		}
		b = rest
		if n < 0 {
			if _, b, err = varint(b); err != nil { // the block's size
				return nil, err
			}
			n = -n
		}
		if n < 0 || n > schemas.MaxItems-total {
			return nil, errors.New("too many items")
		}
		total += n
		for range n {
			if b, err = a.walk(items, b); err != nil {
				return nil, err
			}
		}
	}
}

func varint(b []byte) (int64, []byte, error) {
	n, size := binary.Varint(b)
	if size <= 0 {
		return 0, nil, errors.New("no number")
	}
	return n, b[size:], nil
}
