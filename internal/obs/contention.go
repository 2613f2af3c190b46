package obs

import (
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
)

const (
	// blockRate samples one waiting of a goroutine per so many nanoseconds waited.
	blockRate = 10_000
	// mutexFraction samples one of so many contended unlocks.
	mutexFraction = 10
	// contentionSeconds is how long a profile lasts that does not say it.
	contentionSeconds = "10"
)

// contention serves the block and mutex profiles of the next ?seconds=. The runtime samples neither unless it is told
// to, and that costs: so it is told only while somebody waits for such a profile.
type contention struct {
	mu      sync.Mutex // guards waiting, and the runtime's rates with it
	waiting int
}

// handler serves one of the two.
func (c *contention) handler(name string) http.HandlerFunc {
	profile := pprof.Handler(name)
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("seconds") == "" {
			q.Set("seconds", contentionSeconds)
			r = r.Clone(r.Context())
			r.URL.RawQuery = q.Encode()
			r.Form = nil
		}
		c.sample(1)
		defer c.sample(-1)
		profile.ServeHTTP(w, r)
	}
}

func (c *contention) sample(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += more
	if c.waiting > 0 {
		runtime.SetBlockProfileRate(blockRate)
		runtime.SetMutexProfileFraction(mutexFraction)
		return
	}
	runtime.SetBlockProfileRate(0)
	runtime.SetMutexProfileFraction(0)
}
