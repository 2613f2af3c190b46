package schemas_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// randomise fills a record with what its rules allow, so that it is written as it stands.
func randomise(rnd *rand.Rand, name string, v reflect.Value) {
	needed := slices.Contains([]string{"EndpointID", "EventType", "Key", "ID", "DeliveryID", "Reason", "Topic", "State"}, name)
	absent := !needed && rnd.IntN(4) == 0
	switch x := v.Addr().Interface().(type) {
	case *schemas.AttemptKind:
		*x = pick(rnd, schemas.AttemptPost, schemas.AttemptDuplicate, schemas.AttemptConflict)
	case *schemas.Verdict:
		*x = pick(rnd, schemas.VerdictFirst, schemas.VerdictDuplicate, schemas.VerdictConflict)
	case *schemas.EndpointState:
		*x = pick(rnd, schemas.EndpointEnabled, schemas.EndpointDisabled)
	case *schemas.Order:
		*x = pick(rnd, schemas.OrderOrdered, schemas.OrderParallel, schemas.OrderStrict)
	case *time.Time:
		if !absent {
			*x = time.UnixMilli(1 + rnd.Int64N(253402300799999)).UTC()
		}
	case *time.Duration:
		*x = time.Duration(rnd.Int64()>>rnd.IntN(60)) / 1000 * 1000
	case *string:
		if !absent {
			*x = randomText(rnd, name)
		}
	case *[]byte:
		if absent {
			return
		}
		*x = make([]byte, rnd.IntN(300))
		for i := range *x {
			(*x)[i] = byte(rnd.Uint32())
		}
		if len(*x) == 0 && name != "Raw" && name != "RawKey" {
			*x = nil
		}
	default:
		randomiseKind(rnd, name, v)
	}
}

func randomiseKind(rnd *rand.Rand, name string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			randomise(rnd, v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		for range rnd.IntN(5) {
			v.Grow(1)
			v.SetLen(v.Len() + 1)
			randomise(rnd, "", v.Index(v.Len()-1))
		}
	case reflect.Int, reflect.Int32:
		v.SetInt(int64(rnd.Int32()) >> rnd.IntN(31))
	case reflect.Int64:
		v.SetInt(rnd.Int64() >> rnd.IntN(63))
	case reflect.Float64:
		v.SetFloat(rnd.Float64() * 1000)
	default:
		panic(fmt.Sprintf("%s is a %s", name, v.Type()))
	}
}

func pick[T any](rnd *rand.Rand, from ...T) T { return from[rnd.IntN(len(from))] }

func randomText(rnd *rand.Rand, name string) string {
	alphabet, most := []rune("abcXYZ019 ./:ßé世😀"), 60
	switch {
	case name == "ContentType":
		return pick(rnd, "application/json", "text/plain", "application/xml; charset=utf-8")
	case name == "State":
		return pick(rnd, "closed", "open", "half_open")
	case name != "EndpointID" && strings.HasSuffix(name, "ID"):
		alphabet = []rune("abcXYZ019_-")
	case strings.HasPrefix(name, "Trace"):
		alphabet, most = []rune("abcXYZ019 -=,"), schemas.MaxTraceBytes
	}
	text := make([]rune, 1+rnd.IntN(most))
	for i := range text {
		text[i] = pick(rnd, alphabet...)
	}
	return string(text)
}

// spoil puts text that is broken or too long wherever a record mends it, and times of any fineness.
func spoil(rnd *rand.Rand, v reflect.Value) {
	mended := []string{"LastClass", "LastError", "Class", "Error", "Decision", "OwnerDeliveryID", "Detail", "Run", "Operator", "TraceParent", "TraceState"}
	if v.Type() != reflect.TypeFor[schemas.Endpoint]() {
		mended = append(mended, "Tenant")
	}
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		switch x := f.Addr().Interface().(type) {
		case *schemas.Delivery:
			spoil(rnd, f)
		case *schemas.History:
			spoil(rnd, f)
		case *time.Time:
			*x = pick(rnd, time.Time{}, time.Unix(-1, 0), time.Unix(rnd.Int64N(1<<33), rnd.Int64N(1e9)), time.Unix(1<<40, 0))
		case *[]byte:
			if name == "Excerpt" || name == "LastExcerpt" {
				*x = make([]byte, rnd.IntN(2*schemas.MaxExcerptBytes))
			}
		case *string:
			if slices.Contains(mended, name) {
				text := []byte(strings.Repeat(pick(rnd, "x", "ß", "世", "😀\xff"), rnd.IntN(2000)))
				if len(text) > 0 {
					text[rnd.IntN(len(text))] = byte(rnd.Uint32())
				}
				*x = string(text)
			}
		}
	}
}
