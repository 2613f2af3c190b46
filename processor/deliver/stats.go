package deliver

import "sync/atomic"

// Stats is a snapshot of a Sender's counters since its start. OpenConns is a gauge.
type Stats struct {
	ConnsOpened  int64 // connections made
	OpenConns    int64 // connections open now
	ConnsReused  int64 // requests that went out on a connection used before
	StaleConns   int64 // of these, the ones that broke before any byte of the answer
	Resends      int64 // requests sent again because the peer had not processed them
	InFlight     int64 // attempts under way now
	BodiesCut    int64 // response bodies not read to the end: too long, too slow or broken
	PoolsRetired int64 // generations of connections given up for their age
}

type counters struct {
	opened, open, reused, stale, resends, inFlight, cut, retired atomic.Int64
}

// Stats reads the counters; cheap enough for every scrape.
func (s *Sender) Stats() Stats {
	c := &s.stats
	return Stats{
		ConnsOpened: c.opened.Load(), OpenConns: c.open.Load(), ConnsReused: c.reused.Load(),
		StaleConns: c.stale.Load(), Resends: c.resends.Load(), InFlight: c.inFlight.Load(),
		BodiesCut: c.cut.Load(), PoolsRetired: c.retired.Load(),
	}
}
