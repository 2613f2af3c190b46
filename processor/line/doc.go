// Package line keeps the line of one strict endpoint: which delivery is next, and when those behind it come back.
//
// Every event of the endpoint takes the next number, in the order of the log. The lowest number that has not ended
// (delivered, dead) has the turn; nobody else may be attempted or buried.
//
//	number    1      2        3      4        5          6 ...
//	          ended  ended    turn   waits    waits      (not read yet)
//	                 │        │      │        │
//	                 settled? may be attempted once all before it are settled:
//	                 after a crash, nothing before it is attempted again
//
// A head that fails goes to a tier, and keeps the turn. Those behind it are not tried: what is in memory waits there if
// the head comes back soon, and goes to a tier otherwise, each with a due time of its own behind the head's
// ([Line.Back]), so that they come back in their order and about when their turn comes.
//
// What a next owner must know is written in one record, in the transaction of the outcomes that it follows from
// ([Line.Seal]): how far numbers were given, which have ended, and which of the given ones will be read again from the
// log of events. So an event that is read again has the number that it had.
//
// It is pure, and for one goroutine.
package line
