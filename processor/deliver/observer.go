package deliver

import (
	"crypto/tls"
	"net/http/httptrace"
	"sync"
	"time"
)

// phase is how far an attempt has come.
type phase int

const (
	starting phase = iota
	resolving
	connecting
	handshaking
	sending
	waiting // the request is written
	reading // the answer has begun
)

// doing completes "time ran out while ...".
func (p phase) doing() string {
	return [...]string{
		"getting a connection", "resolving the host", "connecting", "doing the TLS handshake",
		"sending the request", "waiting for the answer", "reading the answer's headers",
	}[p]
}

// observer follows one attempt through net/http's hooks. They run on goroutines of the transport, also after the
// attempt is over (a dial that is still going), so everything is behind the mutex. Got1xxResponse is not hooked on
// purpose: net/http bounds interim answers by size only while nobody listens to them.
type observer struct {
	mu      sync.Mutex
	phase   phase
	gotConn time.Time // zero: never
	reused  bool
	sent    int // times that the request was written at least in part
	tlsErr  error
}

// snapshot is what the observer had seen at one moment.
type snapshot struct {
	phase        phase
	gotConn      time.Time
	reused, sent bool
	tlsErr       error
}

func (o *observer) seen() snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return snapshot{phase: o.phase, gotConn: o.gotConn, reused: o.reused, sent: o.sent > 0, tlsErr: o.tlsErr}
}

// sends is how often the request went out, at least in part.
func (o *observer) sends() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent
}

func (o *observer) trace(s *Sender) *httptrace.ClientTrace {
	at := func(p phase) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.gotConn.IsZero() { // a dial of ours may go on though another connection was taken
			o.phase = p
		}
	}
	return &httptrace.ClientTrace{
		DNSStart:          func(httptrace.DNSStartInfo) { at(resolving) },
		DNSDone:           func(httptrace.DNSDoneInfo) { at(connecting) },
		ConnectStart:      func(_, _ string) { at(connecting) },
		TLSHandshakeStart: func() { at(handshaking) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.tlsErr = err
		},
		GotConn: func(info httptrace.GotConnInfo) {
			if info.Reused {
				s.stats.reused.Add(1)
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.phase, o.gotConn, o.reused = sending, time.Now(), info.Reused
		},
		WroteHeaders: func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.sent++; o.sent > 1 {
				s.stats.resends.Add(1)
			}
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if info.Err == nil && o.phase == sending {
				o.phase = waiting
			}
		},
		GotFirstResponseByte: func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.phase = reading
		},
	}
}
