package egress

import (
	"net/url"
	"sync"
)

// mostChecked bounds how many URLs are remembered; of 100,000 endpoints it is the ones at work that matter.
const mostChecked = 4096

// checked remembers what URLs were read as: the same few are checked for every attempt, and to read one takes a fortieth
// of an attempt's CPU. Refusals are not remembered.
type checked struct {
	mu   sync.RWMutex // guards urls
	urls map[string]*url.URL
}

func (c *checked) get(raw string) *url.URL {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.urls[raw]
}

// put forgets all others when there are too many: who is at work is back at once.
func (c *checked) put(raw string, u *url.URL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.urls == nil || len(c.urls) >= mostChecked {
		c.urls = make(map[string]*url.URL)
	}
	c.urls[raw] = u
}
