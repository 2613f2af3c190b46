// Package schemas holds what Barnabas writes to and reads from Kafka: one Go
// struct for each kind of record, the Avro schemas they are encoded with (the
// .avsc files of this folder, embedded), and the codecs between the two.
//
// Values are Avro in single-object encoding (marker C3 01, the schema's CRC-64
// fingerprint, the datum), so that a record says by itself which schema it was
// written with and no registry is needed to read it. Only the events topic
// takes anything else; see [ReadEvent].
//
// Files of this folder are named <record>.v<n>.avsc; the highest n is written, all
// are read. A file that is released never changes: a change is a new file, and a
// function that fills the struct from it, beside those of the older versions. The
// golden files in testdata hold both to it.
//
// Times are milliseconds since 1970, UTC, and 0 is no time at all; times before which
// something must not happen are rounded up. Durations are microseconds.
//
// The package knows nothing of Kafka clients and, but for [MintDeliveryID], of time or of
// chance: it is pure.
package schemas
