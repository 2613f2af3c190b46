// Package devbroker is the Kafka of `barnabas dev`: franz-go's kfake with a data
// directory, in the process itself. One binary, nothing to install, and what was
// acknowledged is there after a restart and after kill -9. It listens on loopback
// only and is for development: one broker, no replication, no authentication.
//
// # What survives
//
// kfake hands each batch to the operating system before it acknowledges it, so a
// killed process loses nothing; a machine that loses power may (no fsync: kfake's
// SyncWrites costs a disk flush per batch and buys only that). Records, topics,
// committed offsets and their metadata survive. The tests kill a real process in
// mid-stream and count.
//
// # Limits of kfake, and what is done about each
//
// Each is pinned by a test (limits_test.go): when one fails, kfake has changed
// and the workaround can go.
//
//  1. A transaction that is open at kill -9 is undone at the next start, but without a
//     marker in the log: a reader cannot tell that it is past it, and a later
//     transaction of the same id is hidden from read_committed readers. Start writes
//     the missing markers; users of transactions take a new id per boot all the same.
//  2. The end of a transaction is several writes: a marker per partition, then the
//     group's offsets. A kill between them leaves part of the markers. Offsets come
//     last, so nothing is lost; what is done again is told apart by delivery id and
//     attempt number.
//  3. Compaction deletes a partition's files before it writes the new ones: a kill in
//     between loses the partition. Retention that empties a partition makes its
//     offsets start at 0 again after a restart. So neither ever runs here: the directory grows until it is deleted.
//  4. Compaction also ignores open transactions. The one compacted topic that is written in
//     them (lines) would lose its last record if it were aborted; it never runs here (3), and
//     in the simulation when none is open.
//  5. Committed offsets of a group without members expire, as on any Kafka, but after
//     a pause of a week a developer would see everything delivered again. Here they
//     never do.
//  6. Idempotent producers are forgotten by a kill: a client that outlives the broker
//     and repeats a batch writes it twice. In `barnabas dev` it does not outlive it.
//  7. message.timestamp.type=LogAppendTime is accepted and ignored: records keep the
//     producer's time.
//  8. RequireStable holds back all offsets of a group while any transaction with
//     offsets of that group is open, not only the partitions it names.
//  9. The directory has no lock. Start takes one.
//  10. A batch and its index entry are two writes. After a kill between them kfake
//     takes a transaction's batch for a plain one, and what was never committed is
//     read as committed. Start writes such an index anew.
//  11. An answer to a fetch that is cut at the request's MaxBytes leaves out which
//     transactions were aborted in the partition it is cut in, and what was never
//     committed is read as committed. Here fetches are bounded per partition
//     ([WholeFetches], which every kfake that runs long and full needs).
//  12. Compaction drops the marker of an aborted transaction when nothing else of its producer
//     is left, and keeps the note that there was one: what the producer commits from
//     then on is seen by nobody who reads committed. It never runs here (3), and in the
//     simulation not while such a marker is among the lines.
package devbroker
