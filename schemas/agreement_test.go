package schemas_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

func TestCodec_AgreesWithGoavroOnAnyRecord(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t, k)
			rnd := rand.New(rand.NewPCG(7, 41))
			records := []any{k.sample()}
			for range 200 {
				v := reflect.New(reflect.TypeOf(k.sample())).Elem()
				randomise(rnd, "", v)
				records = append(records, v.Interface())
			}
			for _, v := range records {
				ours, err := k.encode(v)
				require.NoError(t, err, "%#v", v)
				theirs, err := a.encode(v)
				require.NoError(t, err)
				require.Equal(t, theirs, ours, "%#v", v)

				got, err := a.decode(ours)
				require.NoError(t, err)
				require.Equal(t, v, got)
				got, err = k.decode(theirs)
				require.NoError(t, err)
				require.Equal(t, v, got)
			}
		})
	}
}

// Text that is mended and times that are rounded: once, and to what goavro reads the same way.
func TestCodec_AgreesWithGoavroOnWhatItMends(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t, k)
			rnd := rand.New(rand.NewPCG(8, 42))
			for range 150 {
				v := reflect.New(reflect.TypeOf(k.sample())).Elem()
				randomise(rnd, "", v)
				spoil(rnd, v)
				b, err := k.encode(v.Interface())
				require.NoError(t, err)
				got, err := k.decode(b)
				require.NoError(t, err)
				theirs, err := a.decode(b)
				require.NoError(t, err)
				require.Equal(t, theirs, got)
				again, err := a.encode(got)
				require.NoError(t, err)
				require.Equal(t, b, again)
			}
		})
	}
}

// C-127: whatever happens to a record's bytes, the code and goavro make the same of it, or both nothing.
func TestDecode_AgreesWithGoavroOnDamagedRecords(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t, k)
			rnd := rand.New(rand.NewPCG(9, 43))
			read := 0
			for range 1000 {
				v := reflect.New(reflect.TypeOf(k.sample())).Elem()
				randomise(rnd, "", v)
				b, err := k.encode(v.Interface())
				require.NoError(t, err)
				for range 1 + rnd.IntN(2) {
					b = damage(rnd, b)
				}
				if requireOneMind(t, a, b) {
					read++
				}
			}
			require.Greater(t, read, 50, "most damage is so bad that nothing is tested")
			require.Less(t, read, 950)
		})
	}
}

// damage changes, drops, doubles or inserts a few bytes behind the header, or pads a number, which only changes its
// length.
func damage(rnd *rand.Rand, b []byte) []byte {
	at := 10 + rnd.IntN(len(b)-10)
	n := min(1+rnd.IntN(3), len(b)-at)
	switch rnd.IntN(6) {
	case 0:
		b[at] ^= 1 << rnd.IntN(8)
	case 1:
		b[at] = byte(rnd.Uint32())
	case 2:
		return slices.Delete(b, at, at+n)
	case 3:
		return slices.Insert(b, at, b[at:at+n]...)
	case 4:
		return slices.Insert(b, at, binary.AppendVarint(nil, rnd.Int64()>>rnd.IntN(64))...)
	default:
		b[at] |= 0x80
		return slices.Insert(b, at+1, slices.Concat([]byte(strings.Repeat("\x80", rnd.IntN(12))), []byte{0})...)
	}
	return b
}

// What goavro takes and the code does not. No encoder writes any of it; what the code takes, goavro takes, which
// the fuzz targets look for.
func TestDecode_IsStricterThanGoavro(t *testing.T) {
	t.Parallel()
	endless := strings.Repeat("\x80", 10) + "\x00" // 0 in eleven bytes
	wide := string(binary.AppendVarint(nil, 1<<32))
	many := string(binary.AppendVarint(nil, 1025)) + strings.Repeat("\x00", 1025+1)
	for name, c := range map[string]struct{ kind, there, instead, want string }{
		"a string that is not UTF-8":   {"claim", "\x0aep_42", "\x02\xff", "endpoint_id is not UTF-8"},
		"a number longer than 64 bits": {"breaker_transition", "open\x06", "open" + endless, "trips has a number longer than 64 bits"},
		"an int of more than 32 bits":  {"breaker_transition", "open\x06", "open" + wide, "trips is 4294967296, no 32-bit number"},
		"more items than anybody has":  {"endpoint", "\x04\xa2\x06\xa8\x06\x00", many, "permanent_statuses has more than 1024 items"},
	} {
		k := kindOf(c.kind)
		b, err := k.encode(k.sample())
		require.NoError(t, err, name)
		require.Equal(t, 1, strings.Count(string(b), c.there), name)
		bad := []byte(strings.Replace(string(b), c.there, c.instead, 1))
		_, rest, err := newAuthority(t, k).codec.NativeFromBinary(bad[10:])
		require.NoError(t, err, name)
		require.Empty(t, rest, name)
		_, err = k.decode(bad)
		requireDecodeError(t, err, c.want)
	}
}

// A schema that is not what the code names, in any one thing, is noticed when the codecs are made.
func TestLayout_NoticesEveryChangeOfASchema(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			listed := k.listed()
			text := schemaFile(t, k, k.version)
			got, err := schemas.Layout(string(text))
			require.NoError(t, err)
			require.Equal(t, listed, got)

			changed := 0
			eachChange(t, text, func(change string, text []byte) {
				got, err := schemas.Layout(string(text))
				if err == nil { // a schema that does not compile is noticed too
					require.NotEqual(t, listed, got, change)
				}
				changed++
			})
			require.Greater(t, changed, 3*len(listed))
		})
	}
}

// eachChange makes one change after the other to the fields of a schema and of the records in it.
func eachChange(t *testing.T, text []byte, do func(change string, text []byte)) {
	t.Helper()
	var schema any
	require.NoError(t, json.Unmarshal(text, &schema))
	show := func(change string) {
		b, err := json.Marshal(schema)
		require.NoError(t, err)
		do(change, b)
	}
	types := map[string]string{"string": "bytes", "bytes": "string", "int": "long", "long": "int", "double": "long"}
	var visit func(any)
	visit = func(x any) {
		s, ok := x.(map[string]any)
		if !ok {
			return
		}
		visit(s["items"])
		visit(s["type"])
		fields, _ := s["fields"].([]any)
		for i, f := range fields {
			field := f.(map[string]any)
			visit(field["type"])

			name, kind := field["name"].(string), field["type"]
			field["name"] = name + "x"
			show("renamed " + name)
			field["name"] = name
			if other, ok := types[fmt.Sprint(kind)]; ok {
				field["type"] = other
				show("another type for " + name)
			}
			field["type"] = []any{"null", kind}
			show("optional " + name)
			field["type"] = kind

			s["fields"] = slices.Concat(fields[:i], fields[i+1:])
			show("without " + name)
			s["fields"] = slices.Insert(slices.Clone(fields), i, any(map[string]any{"name": "more", "type": "int"}))
			show("more before " + name)
			if i > 0 {
				s["fields"] = slices.Concat(fields[:i-1], []any{fields[i], fields[i-1]}, fields[i+1:])
				show("another order before " + name)
			}
			s["fields"] = fields
		}
	}
	visit(schema)
}
