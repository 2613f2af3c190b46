package bench

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Class says what an event is for.
type Class byte

// The classes.
const (
	Warming  Class = 'w' // its figures do not count
	Measured Class = 'm'
	Hung     Class = 'h' // for an endpoint that never answers
	Flooding Class = 'f' // for the endpoint that is flooded
	SameKey  Class = 'k' // sent many times with one key
)

// Payloads are JSON, so that the API takes them as they are; what is told of an event stands at fixed places, so that
// the receiver need not parse it.
const (
	payloadHead = `{"class":"m","number":"0000000000000000","sent":"0000000000000000","text":"`
	payloadTail = `"}`

	classAt  = len(`{"class":"`)
	numberAt = classAt + len(`m","number":"`)
	sentAt   = numberAt + hexDigits + len(`","sent":"`)

	hexDigits = 16

	// MinPayload is the size of the smallest payload, in bytes.
	MinPayload = len(payloadHead) + len(payloadTail)
)

// textBytes is what payloads are cut from.
const textBytes = 1 << 20

// Payloads makes payloads of one size. Safe for concurrent use.
type Payloads struct {
	size int
	text []byte
}

// NewPayloads makes payloads of size bytes, at least MinPayload.
func NewPayloads(size int) *Payloads {
	p := &Payloads{size: size, text: make([]byte, textBytes+size)}
	for i := range p.text {
		p.text[i] = byte('a' + rand.IntN('z'-'a'+1)) // nothing to compress but that it is letters
	}
	return p
}

// Make writes one.
func (p *Payloads) Make(class Class, number uint64, sent time.Time) []byte {
	b := make([]byte, p.size)
	copy(b, payloadHead)
	at := rand.IntN(textBytes)
	copy(b[len(payloadHead):], p.text[at:at+p.size-MinPayload])
	copy(b[p.size-len(payloadTail):], payloadTail)
	b[classAt] = byte(class)
	putHex(b[numberAt:], number)
	putHex(b[sentAt:], uint64(sent.UnixNano()))
	return b
}

// errPayload is a payload that Make did not write.
var errPayload = errors.New("not a payload of this benchmark")

// ReadPayload says what Make wrote.
func ReadPayload(b []byte) (class Class, number uint64, sent time.Time, err error) {
	if len(b) < MinPayload || b[len(b)-1] != '}' {
		return 0, 0, time.Time{}, errPayload
	}
	number, ok := getHex(b[numberAt:])
	at, ok2 := getHex(b[sentAt:])
	if !ok || !ok2 {
		return 0, 0, time.Time{}, errPayload
	}
	return Class(b[classAt]), number, time.Unix(0, int64(at)), nil
}

const digits = "0123456789abcdef"

func putHex(b []byte, v uint64) {
	for i := hexDigits - 1; i >= 0; i-- {
		b[i] = digits[v&0xf]
		v >>= 4
	}
}

func getHex(b []byte) (v uint64, ok bool) {
	for _, c := range b[:hexDigits] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
