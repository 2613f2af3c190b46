// Package topics is the catalogue of Barnabas's topics: their names, keys,
// headers, partitioning and wanted settings. It compares the catalogue with a
// cluster ([Plan]), brings the cluster in line ([Apply]), refuses a cluster that
// cannot hold the promises ([Verify]), and reads the group's lag ([Lag]).
//
// Every record's key is an endpoint id, and every topic but endpoints has the same
// number of partitions, so that one endpoint has the same partition number everywhere:
// partition p of all of them is unit p. That number never changes under records
// that are there.
//
//	          as wanted                  as needed (Verify)
//	events    7 d, LogAppendTime         the longest wait and a day
//	retry.*   7 d, LogAppendTime         likewise
//	replay    7 d, LogAppendTime         likewise
//	idempotency  compact,delete, 26 h    the window and two hours
//	breakers  compact                    compact
//	dlq       30 d                       a day
//	dlq.state 30 d                       as long as dlq
//	attempts  7 d                        -
//	endpoints compact, kept for ever     compact
//
// max.message.bytes never falls from events over the tiers to dlq ([Catalogue.MaxMessageBytes]).
package topics
