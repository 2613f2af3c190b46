package schemas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

var errShort = errors.New("ends too early")

// shape is a schema reduced to what is needed to walk over a datum.
//
// goavro believes an array's item count and allocates for it before it looks
// at the items, reads integers of any length, and does not look into strings. So
// every datum is walked first, without allocating: lengths and counts that lie
// end here, as do lists beyond [MaxItems].
type shape struct {
	kind   string   // a primitive's name, record, array or union
	fields []string // names, of a record
	parts  []*shape // of a record, in order; branches of a union; the item of an array
}

// newShape compiles the plain form of one of our own schemas.
func newShape(plain any, named map[string]*shape) (*shape, error) {
	switch s := plain.(type) {
	case string:
		if isPrimitive(s) {
			return &shape{kind: s}, nil
		}
		if sh, ok := named[s]; ok {
			return sh, nil
		}
		return nil, fmt.Errorf("type %q is not defined before its use", s)
	case []any:
		sh := &shape{kind: "union"}
		return sh, sh.add(named, s...)
	case map[string]any:
		kind, _ := s["type"].(string)
		sh := &shape{kind: kind}
		switch kind {
		case "array":
			return sh, sh.add(named, s["items"])
		case "record":
			for _, f := range s["fields"].([]any) {
				field := f.(map[string]any)
				sh.fields = append(sh.fields, field["name"].(string))
				if err := sh.add(named, field["type"]); err != nil {
					return nil, err
				}
			}
			named[s["name"].(string)] = sh
			return sh, nil
		}
	}
	return nil, fmt.Errorf("type %v is not used here", plain)
}

func (s *shape) add(named map[string]*shape, plain ...any) error {
	for _, p := range plain {
		part, err := newShape(p, named)
		if err != nil {
			return err
		}
		s.parts = append(s.parts, part)
	}
	return nil
}

// walk goes over one datum at the start of b and returns what follows it.
func (s *shape) walk(b []byte) ([]byte, error) {
	switch s.kind {
	case "null":
		return b, nil
	case "boolean":
		return skip(b, 1)
	case "float":
		return skip(b, 4)
	case "double":
		return skip(b, 8)
	case "int", "long":
		n, rest, err := varint(b)
		if err == nil && s.kind == "int" && n != int64(int32(n)) {
			return nil, fmt.Errorf("%d is no 32-bit number", n)
		}
		return rest, err
	case "bytes", "string":
		n, rest, err := varint(b)
		switch {
		case err != nil:
			return nil, err
		case n < 0:
			return nil, errors.New("has a negative length")
		case n > int64(len(rest)):
			return nil, errShort
		case s.kind == "string" && !utf8.Valid(rest[:n]):
			return nil, errors.New("is not UTF-8")
		}
		return rest[n:], nil
	case "record":
		for i, part := range s.parts {
			var err error
			if b, err = part.walk(b); err != nil {
				return nil, fmt.Errorf("%s: %w", s.fields[i], err)
			}
		}
		return b, nil
	case "union":
		n, rest, err := varint(b)
		if err != nil {
			return nil, err
		}
		if n < 0 || n >= int64(len(s.parts)) {
			return nil, fmt.Errorf("has no union branch %d", n)
		}
		return s.parts[n].walk(rest)
	case "array":
		return s.walkArray(b)
	}
	return nil, fmt.Errorf("is a %s", s.kind)
}

// walkArray goes over the blocks of an array; a negative count is followed by
// the block's size, which nobody here needs.
func (s *shape) walkArray(b []byte) ([]byte, error) {
	total := int64(0)
	for {
		n, rest, err := varint(b)
		if err != nil {
			return nil, err
		}
		b = rest
		if n == 0 {
			return b, nil
		}
		if n < 0 {
			if _, b, err = varint(b); err != nil {
				return nil, err
			}
			n = max(-n, 0) // the smallest number has no counterpart and stays negative
		}
		if n == 0 || n > MaxItems-total {
			return nil, fmt.Errorf("has more than %d items", MaxItems)
		}
		total += n
		for range n {
			if b, err = s.parts[0].walk(b); err != nil {
				return nil, err
			}
		}
	}
}

func skip(b []byte, n int) ([]byte, error) {
	if len(b) < n {
		return nil, errShort
	}
	return b[n:], nil
}

// varint reads Avro's zig-zag number, which is encoding/binary's.
func varint(b []byte) (int64, []byte, error) {
	n, size := binary.Varint(b)
	switch {
	case size == 0:
		return 0, nil, errShort
	case size < 0:
		return 0, nil, errors.New("has a number longer than 64 bits")
	}
	return n, b[size:], nil
}
