package schemas_test

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/barnabas-webhooks/barnabas/schemas"
)

var form = regexp.MustCompile(`^dlv_[0-9a-hjkmnp-tv-z]{26}$`)

func TestMintDeliveryID(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 10_000 {
		id := schemas.MintDeliveryID()
		require.Regexp(t, form, id)
		require.False(t, seen[id])
		seen[id] = true
	}
}

func TestMintDeliveryID_SortsByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for range 50 {
			ids = append(ids, schemas.MintDeliveryID())
			time.Sleep(37 * time.Minute)
		}
		require.True(t, slices.IsSorted(ids))
	})
}

func TestDeriveDeliveryID(t *testing.T) {
	t.Parallel()
	c := schemas.Coordinates{Topic: "barnabas.events", Partition: 3, Offset: 42}
	id := schemas.DeriveDeliveryID(c, 1772366400123)
	require.Regexp(t, form, id)
	require.Equal(t, "dlv_ky36thzahpyvta6zxwnd7y8avg", id, "derived ids are in receivers' hands: they may never change")
	require.Equal(t, id, schemas.DeriveDeliveryID(c, 1772366400123))

	for _, other := range []schemas.Coordinates{
		{Topic: "barnabas.event", Partition: 3, Offset: 42},
		{Topic: "barnabas.events", Partition: 4, Offset: 42},
		{Topic: "barnabas.events", Partition: 3, Offset: 43},
	} {
		require.NotEqual(t, id, schemas.DeriveDeliveryID(other, 1772366400123))
	}
	require.NotEqual(t, id, schemas.DeriveDeliveryID(c, 1772366400124), "a topic that was deleted and made again")
}

// C-001: the key is bound to type, content type and payload, and to nothing that could pass for another.
func TestContentHash(t *testing.T) {
	t.Parallel()
	base := schemas.Event{EndpointID: "ep", EventType: "ab", ContentType: "c/d", Payload: []byte("e")}
	sum := schemas.ContentHash(&base)
	want := sha256.Sum256([]byte("\x00\x00\x00\x00\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x03c/d\x00\x00\x00\x00\x00\x00\x00\x01e"))
	require.Equal(t, hex.EncodeToString(want[:]), hex.EncodeToString(sum))

	for name, change := range map[string]func(*schemas.Event){
		"white space":   func(e *schemas.Event) { e.Payload = []byte("e ") },
		"type":          func(e *schemas.Event) { e.EventType = "abc" },
		"content type":  func(e *schemas.Event) { e.ContentType = "c/e" },
		"moved border":  func(e *schemas.Event) { e.EventType, e.ContentType = "abc", "/d" },
		"moved payload": func(e *schemas.Event) { e.ContentType, e.Payload = "c/de", nil },
	} {
		e := base
		change(&e)
		require.NotEqual(t, sum, schemas.ContentHash(&e), name)
	}
	same := base
	same.EndpointID, same.IdempotencyKey, same.DeliveryID, same.AcceptedAt = "other", "k", "dlv_1", at(3)
	require.Equal(t, sum, schemas.ContentHash(&same))

	none, json := schemas.Event{}, schemas.Event{ContentType: "application/json", Payload: []byte{}}
	require.Equal(t, schemas.ContentHash(&none), schemas.ContentHash(&json))
}

func TestMintedAt(t *testing.T) {
	t.Parallel()
	at, ok := schemas.MintedAt("dlv_06h2h099rszf31n32mkevj7h0r") // the contract's example
	require.True(t, ok)
	require.Equal(t, time.UnixMilli(1795975883206).UTC(), at)
	before := time.Now().Truncate(time.Millisecond)
	for range 1000 {
		at, ok := schemas.MintedAt(schemas.MintDeliveryID())
		require.True(t, ok)
		require.False(t, at.Before(before))
		before = at
	}
	id := schemas.MintDeliveryID()
	for _, other := range []string{
		"", "dlv_", id[4:], id[:29], id + "0", "DLV_" + id[4:], id[:10] + "u" + id[11:], id[:29] + "1", // 1: a spare bit is set
		"dlv_ky36thzahpyvta6zxwnd7y8avg", // derived
	} {
		_, ok := schemas.MintedAt(other)
		require.False(t, ok, other)
	}
}
