// Package dlq holds the dead letters: how one is made, how they are read, and
// how they are replayed.
//
// A dead letter is a record of the dlq topic: a delivery that was given up on,
// with its full context, or a record that could not be decoded, byte for byte.
// [FromDelivery], [FromRaw], [Trim] and [Record] make them; they are pure, and
// the processor writes the result in the transaction that settles the source.
//
// [Queue] reads them. A scan is bounded: it goes from the start (or from a
// time) to the end that the topic had when the scan began, partition after
// partition, in offset order, read_committed, and holds one letter at a time.
// Each partition's marks (the dlq.state topic, same partition number) are read
// first, so a letter comes out together with what became of it.
//
// # Replay
//
// [Queue.Replay] feeds dead letters to the replay topic, where the processor
// reads them behind live work. For each batch ONE transaction writes
//
//	replay[p]     the delivery: same id, fresh attempt budget, Replays+1
//	dlq.state[q]  the mark: this dead letter (its coordinates) was replayed
//
// so after kill -9 at any point a letter is either marked and replayed or
// neither, and running the same command again goes on where it stopped.
//
// What is reported is what the log says. After the end of each batch, answered or
// not, its mark is read back, read_committed, where the broker put it: it is there
// or it was aborted, and neither can change any more (writer.go:marked says why the
// client's word is not enough). A replay whose batch went wrong stops with a true
// count; only where the brokers cannot be asked is it [ErrOutcomeUnknown].
//
// Two operators at once. Both use the transactional id <prefix>dlq-replay, and
//
//	A: InitProducerID (epoch 1) -> reads marks -> writes ...
//	B:              InitProducerID (epoch 2) -> reads marks -> writes ...
//
// B's InitProducerID aborts what A had open and makes the broker refuse
// everything A sends later ([ErrFenced]); what A had committed before is
// visible to B, because B reads the marks only after that. There is no
// interleaving in which a letter is replayed by both: A's mark is either
// committed before B's read, or never.
//
// A mark belongs to the coordinates of a dead letter, not to the delivery: a
// delivery that dies again after a replay is one new dead letter, at other
// coordinates and with a higher Replays, and may be replayed in its turn.
package dlq
