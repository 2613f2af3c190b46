// Package unit runs one unit: partition p of all unit topics together. One
// goroutine owns everything the unit knows (trackers, lanes, breakers, claims,
// what waits), so nothing here has a lock.
//
// Everything that happens to a unit arrives in its inbox: records from the
// poller, results of attempts, acknowledgements of claims, the settler's
// questions and answers, the end of ownership. One turn of the loop takes what
// has arrived, lets what has become due join its lane, starts the attempts that
// may start, says what intake should pause, and asks to be settled.
//
//	unit.go           the turn of the loop (Run), and the ways in
//	intake.go         a record is opened in its tracker and read
//	claims.go         the arbiter's verdict on a key
//	waiting.go        a record of a tier waits for its due time
//	endpoint_lane.go  a delivery joins its endpoint's lane, or ends or waits at once
//	line.go           of a strict endpoint: who is next, and where the others wait
//	dispatch.go       at its lane's turn: width, pause, cap, breaker, rate; one attempt
//	result.go         what the attempt came to, and what follows
//	outcome.go        the record that follows: a wait, a dead letter, a refusal
//	settling.go       outcomes gather, are sealed into a batch, are settled
//
// Beside this way: stream.go, rest.go and pressure.go say when intake stands still,
// gap.go what was removed unread, idle.go which lanes are forgotten, needs.go what a
// unit asks of others.
//
// States, each entered once:
//
//	restoring ──▶ running ──▶ draining ──▶ ended
//	    └──────────────┴── drop ────────────▲
//
// While restoring, nothing is read or attempted. While draining, nothing starts:
// what is queued is forgotten (it stays unsettled and will be read again by the
// next owner), what is in flight may finish and is settled. A unit that is
// dropped settles nothing: it belongs to somebody else already.
package unit
