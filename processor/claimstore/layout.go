package claimstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/barnabas-webhooks/barnabas/processor/claim"
	"github.com/barnabas-webhooks/barnabas/schemas"
)

// layout is the number of what this file says. Raise it with every change of it.
const layout = 1

// errMalformed is a record that this layout cannot have written.
var errMalformed = errors.New("malformed record")

const (
	kindHead  = 0 // sorts before all owners of the unit
	kindOwner = 1

	unitSize  = 4
	ownerSize = unitSize + 1 + 8 + 16
)

// unitKey is where a unit's records begin; the next unit's is where they end.
func unitKey(unit int64) []byte {
	if unit > 1<<31-1 { // behind the last there is
		return []byte{0xFF}
	}
	return binary.BigEndian.AppendUint32(nil, uint32(unit))
}

func headKey(unit int32) []byte { return append(unitKey(int64(unit)), kindHead) }

// generationKey is where a generation of a unit begins.
func generationKey(b []byte, unit int32, generation int64) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(unit))
	b = append(b, kindOwner)
	return binary.BigEndian.AppendUint64(b, uint64(generation)^1<<63) // negative ones first
}

func ownerKey(b []byte, unit int32, generation int64, key claim.Fingerprint) []byte {
	return append(generationKey(b, unit, generation), key[:]...)
}

// appendOwner writes an owner: offset and time as varints, half of the content's hash,
// and the delivery id, of which one that is not a producer's own takes 16 bytes.
func appendOwner(b []byte, o claim.Owner) []byte {
	id, short := schemas.PackDeliveryID(o.DeliveryID)
	offset := uint64(o.Offset) << 1
	if short {
		offset |= 1
	}
	b = binary.AppendUvarint(b, offset)
	b = binary.AppendVarint(b, o.At)
	b = append(b, o.Content[:]...)
	if short {
		return append(b, id[:]...)
	}
	return append(b, o.DeliveryID...)
}

func readOwner(b []byte) (o claim.Owner, err error) {
	offset, n := binary.Uvarint(b)
	if n <= 0 {
		return o, errMalformed
	}
	at, m := binary.Varint(b[n:])
	if m <= 0 || len(b) < n+m+len(o.Content) {
		return o, errMalformed
	}
	o.Offset, o.At = int64(offset>>1), at
	b = b[n+m:]
	b = b[copy(o.Content[:], b):]
	if offset&1 == 0 {
		o.DeliveryID = string(b)
		return o, nil
	}
	if len(b) != 16 {
		return o, errMalformed
	}
	o.DeliveryID = schemas.UnpackDeliveryID([16]byte(b))
	return o, nil
}

// head is what is known of a unit without looking at its owners.
type head struct {
	topic       [16]byte
	position    int64
	generations map[int64]int64 // about how many owners each holds
}

func (h *head) clone() head {
	return head{topic: h.topic, position: h.position, generations: maps.Clone(h.generations)}
}

// owners is about how many the unit holds.
func (h *head) owners() (n int64) {
	for _, count := range h.generations {
		n += count
	}
	return n
}

// newest is the last generation, false when there is none.
func (h *head) newest() (generation int64, ok bool) {
	for g := range h.generations {
		if !ok || g > generation {
			generation, ok = g, true
		}
	}
	return generation, ok
}

func (h *head) append(b []byte) []byte {
	b = append(b, h.topic[:]...)
	b = binary.AppendUvarint(b, uint64(h.position))
	for _, g := range slices.Sorted(maps.Keys(h.generations)) {
		b = binary.AppendVarint(b, g)
		b = binary.AppendUvarint(b, uint64(h.generations[g]))
	}
	return b
}

func readHead(b []byte) (h head, err error) {
	h.generations = map[int64]int64{}
	if len(b) < len(h.topic) {
		return h, errMalformed
	}
	b = b[copy(h.topic[:], b):]
	position, n := binary.Uvarint(b)
	if n <= 0 {
		return h, errMalformed
	}
	h.position = int64(position)
	for b = b[n:]; len(b) > 0; {
		g, n := binary.Varint(b)
		if n <= 0 {
			return h, errMalformed
		}
		count, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return h, errMalformed
		}
		h.generations[g] = int64(count)
		b = b[n+m:]
	}
	return h, nil
}

// folder is the name of a database's folder; all that begin with folderPrefix are ours.
func folder(windowMillis int64) string {
	return fmt.Sprintf("%s%d-%d", folderPrefix, layout, windowMillis)
}

const folderPrefix = "claims-"
