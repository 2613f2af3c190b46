package sim_test

import (
	"encoding/binary"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Wire is what happens to the Kafka requests of one process.
type Wire struct {
	mu     sync.Mutex // guards what follows
	faults []*wireFault
	seen   map[kmsg.Key]func() // called once, before the next request of the kind is written
}

// sees calls f, once, when the next request of a kind is about to be written.
func (w *Wire) sees(key kmsg.Key, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[kmsg.Key]func(){}
	}
	w.seen[key] = f
}

// wireFault meets the next requests of a kind.
type wireFault struct {
	keys  []kmsg.Key // empty: any
	fate  Fate
	count int
}

// add puts a fault on the wire.
func (w *Wire) add(f *wireFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
}

func (w *Wire) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = nil
}

// fate implements Host.tap. A client writes one request at a time: length, then key.
func (w *Wire) fate(to string, p []byte) Fate {
	port, err := strconv.Atoi(to)
	if err != nil || port < brokerPort || port >= brokerPort+10 || len(p) < 6 {
		return Fate{}
	}
	key := kmsg.Key(int16(binary.BigEndian.Uint16(p[4:6])))
	w.mu.Lock()
	seen := w.seen[key]
	delete(w.seen, key)
	w.mu.Unlock()
	if seen != nil {
		seen()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, f := range w.faults {
		if !f.meets(key) {
			continue
		}
		if f.count--; f.count <= 0 {
			w.faults = append(w.faults[:i:i], w.faults[i+1:]...)
		}
		return f.fate
	}
	return Fate{}
}

func (f *wireFault) meets(key kmsg.Key) bool {
	if len(f.keys) == 0 {
		return true
	}
	for _, k := range f.keys {
		if k == key {
			return true
		}
	}
	return false
}
