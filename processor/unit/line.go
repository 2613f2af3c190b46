package unit

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-webhooks/barnabas/internal/obs"
	"github.com/barnabas-webhooks/barnabas/processor/line"
	"github.com/barnabas-webhooks/barnabas/processor/metrics"
	"github.com/barnabas-webhooks/barnabas/retry"
	"github.com/barnabas-webhooks/barnabas/schemas"
	"github.com/barnabas-webhooks/barnabas/topics"
)

// lines are the lines of the unit's strict endpoints. Those of an endpoint that was never strict, or is not any more,
// are not there.
type lines struct {
	of map[string]*line.Line
	// unsaid are endpoints whose line has begun or ended and that the log does not know of yet: the next outcome of
	// theirs takes the record along, whatever it is. The value is the epoch of the last line.
	unsaid map[string]int64
	// rooms are where deliveries wait in memory that are not next, by endpoint.
	rooms map[string]*room
	// stirred are lanes in whose line something has happened, to be looked at.
	stirred []*endpointLane
	sealed  map[string]*line.Line // whose records are with the settler
	behind  int64                 // as the metric has it
}

// place is where a delivery stands in its endpoint's line. The zero value: nowhere.
type place struct {
	endpoint      string
	epoch, number int64
}

// header is the place as a tier's record has it; false: there is none.
func (p place) header() (kgo.RecordHeader, bool) {
	if p.number == 0 {
		return kgo.RecordHeader{}, false
	}
	value := strconv.AppendInt(nil, p.epoch, 10)
	value = strconv.AppendInt(append(value, '/'), p.number, 10)
	return kgo.RecordHeader{Key: topics.HeaderLine, Value: value}, true
}

// placeOf reads the place of a tier's record. What cannot be read is no place: such a delivery waits for nobody.
func placeOf(r *kgo.Record) place {
	for _, h := range r.Headers {
		if h.Key != topics.HeaderLine {
			continue
		}
		epoch, number, _ := strings.Cut(string(h.Value), "/")
		e, err := strconv.ParseInt(epoch, 10, 64)
		n, err2 := strconv.ParseInt(number, 10, 64)
		if err == nil && err2 == nil && n > 0 {
			return place{string(r.Key), e, n}
		}
	}
	return place{}
}

// restoreLines takes the lines that an owner before this one left.
func (u *Unit) restoreLines(records map[string]*schemas.Line) {
	u.lines = lines{of: make(map[string]*line.Line, len(records)), unsaid: map[string]int64{}, rooms: map[string]*room{}}
	for id, r := range records {
		u.lines.of[id] = line.Restore(r)
		u.waitsMore(u.lines.of[id].Behind())
	}
}

// waitsMore counts those who wait behind others.
func (u *Unit) waitsMore(n int64) {
	u.lines.behind += n
	u.Metrics.LineWaiting.Add(float64(n))
}

// lineUpAtEnd gives an event of a strict endpoint its place.
func (u *Unit) lineUpAtEnd(it *item, r *kgo.Record, now time.Time) {
	id := it.delivery.EndpointID
	ep, known := u.Endpoints.Get(id)
	l := u.lineOf(id)
	if l == nil {
		if !known || ep.Order != schemas.OrderStrict {
			return
		}
		epoch := max(r.Timestamp.UnixMilli(), u.lines.unsaid[id]+1)
		l = line.New(id, epoch, r.Offset, now)
		u.lines.of[id], u.lines.unsaid[id] = l, epoch
	}
	before := l.Behind()
	it.place = place{id, l.Epoch(), l.Take(r.Offset, now)}
	u.waitsMore(l.Behind() - before)
}

// lineOf is the line of an endpoint, nil when it has none. One whose endpoint is not strict any more ends here: who is
// in it waits for nobody.
func (u *Unit) lineOf(id string) *line.Line {
	l := u.lines.of[id]
	if l == nil {
		return nil
	}
	if ep, known := u.Endpoints.Get(id); known && ep.Order != schemas.OrderStrict {
		u.endLine(id)
		return nil
	}
	return l // also of an endpoint that is unknown or deleted: it may come back, and what dies until then dies in order
}

// endLine ends a line.
func (u *Unit) endLine(id string) {
	l := u.lines.of[id]
	u.waitsMore(-l.Behind())
	delete(u.lines.of, id)
	u.lines.unsaid[id] = l.Epoch()
	if ln := u.lanes[id]; ln != nil {
		u.stir(ln)
	}
}

// endLines ends all lines: the log of events has begun anew, and the offsets that they know mean something else now.
func (u *Unit) endLines() {
	for _, id := range slices.Collect(maps.Keys(u.lines.of)) {
		u.endLine(id)
	}
}

// stir has a lane's line looked at.
func (u *Unit) stir(l *endpointLane) { u.lines.stirred = append(u.lines.stirred, l) }

// lineOfItem is the line that a delivery stands in; nil: none.
func (u *Unit) lineOfItem(it *item) *line.Line {
	if it.place.number == 0 {
		return nil
	}
	if l := u.lineOf(it.place.endpoint); l != nil && l.Epoch() == it.place.epoch {
		return l
	}
	return nil // of a line that has ended
}

// waitsInLine keeps a delivery that is not next: in the room of its lane if its turn comes soon, else in a tier. False:
// it is next, or stands in no line.
func (u *Unit) waitsInLine(it *item, now time.Time) bool {
	l := u.lineOfItem(it)
	if l == nil || it.place.number <= l.Turn() || u.passOver(l, it, now) {
		return false
	}
	ln := u.laneOf(it.place.endpoint)
	ln.arrived = now
	distance := it.place.number - l.Turn()
	switch {
	case distance >= u.window(), l.Due().Sub(now) > u.LaneAge, !u.enterRoom(ln.id, it, now):
		u.sendBehind(ln, l, it, now)
	default:
		u.alarms.set(ln, now.Add(u.LaneAge))
	}
	return true
}

// mostInRoom bounds the room whatever the lane holds: its numbers may be in a line's record.
const mostInRoom = 512

// window is how far behind the turn a number may be and wait in memory.
func (u *Unit) window() int64 { return int64(min(u.LaneEntries, mostInRoom)) }

// room is where deliveries of one endpoint wait in memory for their turns, by their numbers.
type room struct {
	waiting map[int64]roomed
	bytes   int64 // of their payloads
}

type roomed struct {
	*item
	at time.Time
}

// enterRoom lets a delivery wait in memory; false when there is no room.
func (u *Unit) enterRoom(id string, it *item, now time.Time) bool {
	r, size := u.lines.rooms[id], int64(len(it.delivery.Payload))
	if r == nil {
		r = &room{waiting: map[int64]roomed{}}
		u.lines.rooms[id] = r
	}
	if len(r.waiting) > 0 && r.bytes+size > u.LaneBytes {
		return false
	}
	it.keep()
	r.waiting[it.place.number] = roomed{it, now}
	r.bytes += size
	return true
}

// leaveRoom takes a delivery out of its room; nil when it is not there.
func (u *Unit) leaveRoom(id string, number int64) *item {
	r := u.lines.rooms[id]
	if r == nil || r.waiting[number].item == nil {
		return nil
	}
	it := r.waiting[number].item
	if delete(r.waiting, number); len(r.waiting) == 0 {
		delete(u.lines.rooms, id)
	}
	r.bytes -= int64(len(it.delivery.Payload))
	return it
}

// inRoom lists the numbers that wait in memory, ascending.
func (u *Unit) inRoom(id string) []int64 {
	if r := u.lines.rooms[id]; r != nil {
		return slices.Sorted(maps.Keys(r.waiting))
	}
	return nil
}

// passOver gives a delivery the turn when the one that has it never comes.
func (u *Unit) passOver(l *line.Line, it *item, now time.Time) bool {
	before, turn := l.Behind(), l.Turn()
	if !l.Overdue(it.place.number, u.Policy.Lifetime, now) {
		return false
	}
	u.waitsMore(l.Behind() - before)
	u.Metrics.LineSkipped.Add(float64(it.place.number - turn))
	u.lines.unsaid[it.place.endpoint] = l.Epoch()
	u.Log.Error("line: deliveries never came, and are passed over", obs.KeyEndpointID, it.place.endpoint, obs.KeyFrom, turn, obs.KeyTo, it.place.number)
	return true
}

// sendBehind sends a delivery to a tier, to come back in its order behind the head of the line.
func (u *Unit) sendBehind(ln *endpointLane, l *line.Line, it *item, now time.Time) {
	ln.flooded = now
	d := it.delivery
	d.Holds = schemas.OneMore(d.Holds)
	d.History.LastClass = lastClass(d, metrics.HoldLine)
	u.postpone(it, retry.Decision{
		Kind: retry.Hold, Due: l.Back(it.place.number, u.interval(ln), 4*u.LaneAge/5, now), Reason: metrics.HoldLine,
	}, now)
}

// step notes what an outcome means to the line that its source stands in.
func (u *Unit) step(it *item, now time.Time) {
	l := u.lineOfItem(it)
	if l == nil {
		return
	}
	before, turned := l.Behind(), false
	switch {
	case it.trimmed.Load():
		turned = l.Lose(it.place.number, now)
	case it.written == nil:
		turned = l.End(it.place.number, now)
	case it.place.number == l.Turn():
		l.Postpone(it.place.number, it.delivery.DueAt)
		turned = true
	}
	u.waitsMore(l.Behind() - before)
	if ln := u.lanes[it.place.endpoint]; turned && ln != nil {
		u.stir(ln)
	}
}

// moveLines looks at the lines in which something has happened: who is next joins the lane, and who would wait for long
// leaves. False when nothing has happened.
func (u *Unit) moveLines(now time.Time) bool {
	if len(u.lines.stirred) == 0 {
		return false
	}
	for len(u.lines.stirred) > 0 {
		ln := u.lines.stirred[0]
		u.lines.stirred = u.lines.stirred[1:]
		l := u.lineOf(ln.id)
		switch {
		case l == nil:
			for _, n := range u.inRoom(ln.id) {
				u.join(u.leaveRoom(ln.id, n), now)
			}
		case l.Due().Sub(now) > u.LaneAge:
			for _, n := range u.inRoom(ln.id) {
				u.sendBehind(ln, l, u.leaveRoom(ln.id, n), now)
			}
		default:
			if next := u.leaveRoom(ln.id, l.Turn()); next != nil {
				u.join(next, now)
			}
		}
		u.lineUp(ln)
	}
	u.lines.stirred = nil
	return true
}

// ageRoom sends away who waits in the room for too long: those whose turn is far, and all of them when nobody who is
// here has the turn, so that no record stays unsettled behind a slow endpoint.
func (u *Unit) ageRoom(ln *endpointLane, now time.Time) {
	numbers := u.inRoom(ln.id)
	if len(numbers) == 0 {
		return
	}
	l := u.lineOf(ln.id)
	if l == nil {
		return // it has just ended: see moveLines
	}
	headHere := ln.inFlight > 0 || ln.queue.Len() > 0 || l.Due().After(now)
	for _, n := range numbers {
		age := now.Sub(u.lines.rooms[ln.id].waiting[n].at)
		soon := headHere && l.Away(n, u.interval(ln)) <= u.LaneAge && age < hanging*u.LaneAge
		if age >= u.LaneAge && !soon {
			u.sendBehind(ln, l, u.leaveRoom(ln.id, n), now)
		}
	}
	if u.lines.rooms[ln.id] != nil {
		u.alarms.set(ln, now.Add(u.LaneAge/2))
	}
}

// mayStart says that a delivery whose turn it is may be attempted: all before it are settled, so that no crash has them
// attempted again behind it.
func (u *Unit) mayStart(it *item) bool {
	l := u.lineOfItem(it)
	return l == nil || l.Clear()
}

// sealLines adds the records of the lines that the outcomes of a batch belong to.
func (u *Unit) sealLines(sealed []settled) []*kgo.Record {
	u.lines.sealed = nil
	if len(u.lines.of) == 0 && len(u.lines.unsaid) == 0 {
		return nil
	}
	moves := map[string][]line.Move{}
	for _, one := range sealed {
		it := one.it
		id := it.place.endpoint
		if id == "" && it.delivery != nil {
			id = it.delivery.EndpointID
		}
		l := u.lines.of[id]
		if l != nil && it.place.epoch == l.Epoch() && it.place.number > 0 {
			moves[id] = append(moves[id], line.Move{Number: it.place.number, Ended: it.written == nil})
		} else if _, ok := u.lines.unsaid[id]; ok && moves[id] == nil {
			moves[id] = []line.Move{}
		}
	}
	var records []*kgo.Record
	for _, id := range slices.Sorted(maps.Keys(moves)) {
		record := &kgo.Record{Topic: u.Catalogue.Lines(), Partition: u.owner.Unit, Key: []byte(id)} // a tombstone
		if l := u.lines.of[id]; l != nil {
			value, err := schemas.EncodeLine(l.Seal(moves[id]))
			if err != nil { // all of it is bounded
				u.Log.Error("line cannot be encoded", obs.KeyEndpointID, id, obs.KeyError, err)
				continue
			}
			record.Value = value
			if u.lines.sealed == nil {
				u.lines.sealed = map[string]*line.Line{}
			}
			u.lines.sealed[id] = l
		}
		delete(u.lines.unsaid, id)
		records = append(records, record)
	}
	return records
}

// settledLines takes note that the records of the last batch are written: whoever waited for that may start.
func (u *Unit) settledLines(sealed []settled, now time.Time) {
	for id, l := range u.lines.sealed {
		l.Settle(now)
		if ln := u.lanes[id]; ln != nil {
			u.lineUp(ln)
		}
	}
	u.lines.sealed = nil
	for _, one := range sealed {
		if one.it.written != nil && one.it.place.number > 0 && one.it.trimmed.Load() { // it was to go to a tier, and has become a dead letter
			u.step(one.it, now)
			u.lines.unsaid[one.it.place.endpoint] = one.it.place.epoch
		}
	}
}
