package schemas_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

// The samples with a payload of each size; what has no payload is measured once.
const smallPayload, largePayload = 200, 10_000

func benchCodec[T any](b *testing.B, name string, v T, encode func(*T) ([]byte, error), decode func([]byte) (T, error)) {
	b.Helper()
	encoded, err := encode(&v)
	require.NoError(b, err)
	b.Run(name+"/encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := encode(&v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(name+"/decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := decode(encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	for _, size := range []int{smallPayload, largePayload} {
		payload := bytes.Repeat([]byte("x"), size)
		e, d, l := event(), delivery(), deadLetter()
		e.ContentType, e.Payload, d.Payload, l.Delivery.Payload = "application/json", payload, payload, payload
		benchCodec(b, fmt.Sprintf("event/%d", size), e, schemas.EncodeEvent, schemas.DecodeEvent)
		benchCodec(b, fmt.Sprintf("delivery/%d", size), d, schemas.EncodeDelivery, schemas.DecodeDelivery)
		benchCodec(b, fmt.Sprintf("dead_letter/%d", size), l, schemas.EncodeDeadLetter, schemas.DecodeDeadLetter)
	}
	benchCodec(b, "attempt", attempt(), schemas.EncodeAttempt, schemas.DecodeAttempt)
	benchCodec(b, "claim", claim(), schemas.EncodeClaim, schemas.DecodeClaim)
	benchCodec(b, "breaker_transition", transition(), schemas.EncodeBreakerTransition, schemas.DecodeBreakerTransition)
	benchCodec(b, "endpoint", endpoint(), schemas.EncodeEndpoint, schemas.DecodeEndpoint)
}

func BenchmarkReadEvent(b *testing.B) {
	e := event()
	avro, err := schemas.EncodeEvent(&e)
	require.NoError(b, err)
	plain := headers("event-type=invoice.paid", "content-type=application/json", "idempotency-key=invoice-7")
	cloud := headers("ce_specversion=1.0", "ce_type=invoice.paid", "ce_source=/billing", "ce_id=7", "content-type=application/json")
	for _, form := range []struct {
		name    string
		value   []byte
		headers []schemas.Header
	}{
		{"plain", bytes.Repeat([]byte("x"), smallPayload), plain},
		{"cloudevent", bytes.Repeat([]byte("x"), smallPayload), cloud},
		{"avro", avro, nil},
	} {
		b.Run(form.name, func(b *testing.B) {
			var r schemas.Reader
			key := []byte("ep_42")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.ReadEvent(b.Context(), key, form.value, form.headers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkContentHash(b *testing.B) {
	for _, size := range []int{smallPayload, largePayload} {
		b.Run(fmt.Sprintf("%d", size), func(b *testing.B) {
			e := event()
			e.Payload = bytes.Repeat([]byte("x"), size)
			b.ReportAllocs()
			for b.Loop() {
				schemas.ContentHash(&e)
			}
		})
	}
}

func BenchmarkDeliveryID(b *testing.B) {
	b.Run("mint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			schemas.MintDeliveryID()
		}
	})
	b.Run("derive", func(b *testing.B) {
		c := origin()
		b.ReportAllocs()
		for b.Loop() {
			schemas.DeriveDeliveryID(c, 1772366400123)
		}
	})
}
