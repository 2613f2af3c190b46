package schemas_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// authority is goavro with the newest schema file of a record: what the code is held to. It knows the record's
// struct by nothing but the names in the schema, so that it shares no line and no order with the code.
type authority struct {
	kind   kind
	codec  *goavro.Codec
	schema any
	named  map[string]any
	alias  uint64 // see TestReadEvent_WrittenWithGoavroAndTheSchemaFile
}

func newAuthority(tb testing.TB, k kind) *authority {
	tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("%s.v%d.avsc", k.name, k.version))
	require.NoError(tb, err)
	asItStands, err := goavro.NewCodec(string(text))
	require.NoError(tb, err)
	plain := strings.ReplaceAll(string(text), `{"type": "long", "logicalType": "timestamp-millis"}`, `"long"`)
	a := &authority{kind: k, named: map[string]any{}, alias: asItStands.Rabin}
	require.NoError(tb, json.Unmarshal([]byte(plain), &a.schema))
	a.codec, err = goavro.NewCodec(plain)
	require.NoError(tb, err)
	return a
}

// encode is the record as goavro writes it.
func (a *authority) encode(v any) ([]byte, error) {
	return a.codec.SingleFromNative(nil, a.native(a.schema, reflect.ValueOf(v)))
}

// decode is what the record is by the walk, goavro and the rules together. A datum that passes the walk is one
// that goavro reads: what it says otherwise is a *laxError.
func (a *authority) decode(b []byte) (any, error) {
	if len(b) > schemas.MaxRecordBytes || len(b) < 10 || b[0] != 0xC3 || b[1] != 1 {
		return nil, errors.New("no single-object encoding")
	}
	if f := binary.LittleEndian.Uint64(b[2:]); f != a.codec.Rabin && f != a.alias {
		return nil, errors.New("another schema")
	}
	rest, err := a.walk(a.schema, b[10:])
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes left, error %w", len(rest), err)
	}
	native, rest, err := a.codec.NativeFromBinary(b[10:])
	if err != nil || len(rest) > 0 {
		return nil, &laxError{fmt.Errorf("goavro leaves %d bytes, error %w", len(rest), err)}
	}
	v := reflect.New(reflect.TypeOf(a.kind.sample())).Elem()
	if err := a.fill(a.schema, native, v); err != nil {
		return nil, err
	}
	if e, ok := v.Addr().Interface().(*schemas.Endpoint); ok {
		e.State, e.Order = or(e.State, schemas.EndpointEnabled), or(e.Order, schemas.OrderOrdered)
	}
	if _, err := a.kind.encode(v.Interface()); err != nil { // the rules are the same both ways
		return nil, err
	}
	return v.Interface(), nil
}

type laxError struct{ error }

func or[S ~string](s, otherwise S) S {
	if s == "" {
		return otherwise
	}
	return s
}

// fieldOf finds the Go field that a schema's field is named after.
func fieldOf(v reflect.Value, name string) reflect.Value {
	want := strings.ReplaceAll(strings.TrimSuffix(name, "_micros"), "_", "")
	f := v.FieldByNameFunc(func(n string) bool { return strings.ToLower(n) == want })
	if !f.IsValid() {
		panic(fmt.Sprintf("%s has no field for %s", v.Type(), name))
	}
	return f
}

// eachField goes over a record's fields, and remembers the record by its name.
func (a *authority) eachField(record map[string]any, v reflect.Value, do func(name string, schema any, v reflect.Value)) {
	a.named["barnabas."+strings.TrimPrefix(record["name"].(string), "barnabas.")] = record
	fields := record["fields"].([]any)
	if v.NumField() != len(fields) {
		panic(fmt.Sprintf("%s has %d fields, its schema %d", v.Type(), v.NumField(), len(fields)))
	}
	for _, f := range fields {
		field := f.(map[string]any)
		name := field["name"].(string)
		do(name, field["type"], fieldOf(v, name))
	}
}

// native is a Go value as goavro takes it.
func (a *authority) native(schema any, v reflect.Value) any {
	switch s := schema.(type) {
	case []any: // null or bytes
		if v.IsNil() {
			return nil
		}
		return map[string]any{"bytes": v.Bytes()}
	case map[string]any:
		if s["type"] == "array" {
			list := make([]any, v.Len())
			for i := range list {
				list[i] = a.native(s["items"], v.Index(i))
			}
			return list
		}
		m := map[string]any{}
		a.eachField(s, v, func(name string, schema any, v reflect.Value) { m[name] = a.native(schema, v) })
		return m
	}
	switch x := v.Interface().(type) {
	case time.Time:
		if x.IsZero() {
			return int64(0)
		}
		return x.UnixMilli()
	case time.Duration:
		return x.Microseconds()
	}
	switch schema {
	case "string":
		return v.String()
	case "bytes":
		if v.Kind() == reflect.String {
			return []byte(v.String())
		}
		return append([]byte{}, v.Bytes()...)
	case "int", "long":
		return v.Int()
	case "double":
		return v.Float()
	}
	return a.native(a.named[schema.(string)], v)
}

// fill puts what goavro read into a Go value.
func (a *authority) fill(schema, native any, v reflect.Value) error {
	switch s := schema.(type) {
	case []any:
		if native != nil {
			v.SetBytes(native.(map[string]any)["bytes"].([]byte))
		}
		return nil
	case map[string]any:
		var err error
		if s["type"] == "array" {
			for _, one := range native.([]any) {
				v.Grow(1)
				v.SetLen(v.Len() + 1)
				err = errors.Join(err, a.fill(s["items"], one, v.Index(v.Len()-1)))
			}
			return err
		}
		a.eachField(s, v, func(name string, schema any, v reflect.Value) {
			err = errors.Join(err, a.fill(schema, native.(map[string]any)[name], v))
			if strings.HasPrefix(name, "trace") && !passedOn(v.String()) {
				v.SetString("")
			}
		})
		return err
	}
	return a.fillPrimitive(schema.(string), native, v)
}

func (a *authority) fillPrimitive(schema string, native any, v reflect.Value) error {
	switch v.Interface().(type) {
	case time.Time:
		ms := native.(int64)
		if last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC); ms < 0 || ms > last.UnixMilli() {
			return errors.New("no time")
		} else if ms > 0 {
			v.Set(reflect.ValueOf(time.UnixMilli(ms).UTC()))
		}
		return nil
	case time.Duration:
		us := native.(int64)
		if us < 0 || us > math.MaxInt64/1000 {
			return errors.New("no duration")
		}
		v.SetInt(us * 1000)
		return nil
	}
	switch x := native.(type) {
	case string:
		v.SetString(x)
	case []byte:
		if v.Kind() == reflect.String {
			v.SetString(string(x))
		} else if len(x) > 0 {
			v.SetBytes(x)
		}
	case int32:
		v.SetInt(int64(x))
	case int64:
		v.SetInt(x)
	case float64:
		v.SetFloat(x)
	default:
		return a.fill(a.named[schema], native, v)
	}
	return nil
}

// passedOn says whether a trace-context value is one.
func passedOn(s string) bool {
	return len(s) <= schemas.MaxTraceBytes && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
