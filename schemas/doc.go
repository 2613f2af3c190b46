// Package schemas holds what Barnabas writes to and reads from Kafka: one Go
// struct for each kind of record, the Avro schemas they are encoded with (the
// .avsc files of this folder, embedded), and the codecs between the two.
//
// Values are Avro in single-object encoding (marker C3 01, the schema's CRC-64
// fingerprint, the datum), so that a record says by itself which schema it was
// written with and no registry is needed to read it. Only the events topic
// takes anything else; see [ReadEvent].
//
// The package knows nothing of Kafka clients, of time or of chance: it is pure.
package schemas
