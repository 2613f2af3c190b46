// Package settle writes what decisions imply: attempt records, waiting
// deliveries, dead letters and re-routed events, and the offsets of what they
// came from, in one Kafka transaction per beat.
//
// A unit that has outcomes to settle says so ([Settler.Want]); at the next beat
// the settler asks every such unit for its batch, writes all of them in one
// transaction, and tells the units what came of it. A unit has at most one batch
// here at a time, so the commit positions of its batch stay true until it is
// answered, however often the transaction has to be tried. Who has a whole batch or the
// rest of one, or reads no further before it is settled, need not wait for the beat ([Settler.Hurry]).
//
//	idle ── Want ──▶ beat ── Seal ──▶ begin, produce, offsets, end ──▶ Settled
//	                  ▲                       │ aborted: same batches again
//	                  └───────────────────────┤
//	                                          └ outcome unknown: fence, re-read
//	                                            the committed offsets, look for
//	                                            this beat's tag in them
//
// Ownership. The member id and generation of the group are read first, then it
// is checked for each batch that its unit is still ours, and the commit carries
// what was read first. Walk the interleaving: a process frozen anywhere between
// the two reads wakes up either still in that generation (then nobody else owned
// the unit) or not (then the broker refuses the generation it carries and the
// transaction is aborted, records and all).
package settle
