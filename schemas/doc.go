// Package schemas holds what Barnabas writes to and reads from Kafka: one Go
// struct for each kind of record, the Avro schemas they are encoded with (the
// .avsc files of this folder, embedded), and the codecs between the two.
//
// Values are Avro in single-object encoding (marker C3 01, the schema's CRC-64
// fingerprint, the datum), so that a record says by itself which schema it was
// written with and no registry is needed to read it. Only the events topic
// takes anything else; see [ReadEvent].
//
// The codecs are by hand, because a general one goes through a map with a boxed value for each field, both
// ways: three to six times the time and five to twenty times the allocations, on the path of every delivery. A
// record names its fields once, in its method fields, and a datum writes or reads them. goavro stays the
// authority: it computes the fingerprints, and the tests hold to it every byte that is written, and what is made of
// any bytes that are read. The code is stricter in four things: it refuses a string that is not UTF-8, a number
// longer than 64 bits and an int of more than 32, which no encoder writes, and a list beyond [MaxItems].
//
// Files of this folder are named <record>.v<n>.avsc; the highest n is written, all
// are read. A file that is released never changes: a change is a new file, and an
// "if d.version" in the method fields. The package does not start with a schema whose fields are not, in order and
// type, those that the code names for its version. The golden files in testdata hold the bytes of each to it.
//
// Times are milliseconds since 1970, UTC, and 0 is no time at all; times before which
// something must not happen are rounded up. Durations are microseconds.
//
// The package knows nothing of Kafka clients and, but for [MintDeliveryID], of time or of
// chance: it is pure.
package schemas
