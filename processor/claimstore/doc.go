// Package claimstore keeps the claims of a process's units on local disk, so that a
// window of them needs neither the memory nor a full reading of the idempotency topic
// at each restart. It is a cache of that topic: losing the directory loses nothing.
//
// One Pebble database holds all units. Keys sort so that a generation, and a unit, is
// one range, dropped by one record:
//
//	unit 4 │ 0                                  what the unit holds: topic, position, generations
//	unit 4 │ 1 │ generation 8 │ fingerprint 16  an owner: offset, time, content, delivery id
//
// There is no write-ahead log. What is written becomes durable in the order in which it
// was written, a memtable at a time, so after a crash the store is what it was a moment
// ago, position and all: behind the topic, and never ahead of what it holds. The rest is
// read from the topic, which is at most what two memtables hold.
//
// A store that fails (a read error, a corrupt block, a full disk) fails for good: every
// further use is an error, so that no verdict is ever given on what cannot be seen. Its
// owner lets go of all units, has it renewed, which is empty, and restores from the topic.
//
// The database lies in a folder of the directory that is named after the layout and the
// window. A folder of another name is of another version or window, and is removed.
//
// Lock order: Store.mu, then unit.mu.
package claimstore
