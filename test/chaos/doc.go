// Package chaos kills what it can on a real Apache Kafka and then counts.
//
//	load       two API processes and a Kafka producer, some 200 events a second for 200 endpoints; a tenth of them
//	           repeats, a few conflicts, a few without a key, a few in the wrong partition
//	workers    three processes of the real binary that deliver
//	receivers  in this process: healthy, slow, flapping, dead for a while, one that hangs; every POST is noted
//	faults     at moments drawn from a seed: kill -9 of a worker, SIGSTOP past the session timeout, kill -9 and
//	           SIGSTOP of the broker, a rolling restart by SIGTERM, kill -9 of an API process and of a replay
//	quiet      all is healed, everything lands or is a dead letter, the dead letters are replayed, everything lands
//	judgement  the topics, read committed, and the POSTs are held against each other
//
// The judgement needs nothing but what was written: an event is settled by what stands in the topics, a POST was
// made when a receiver saw it. See judge.go for what is held; it is tested by histories that break each rule.
//
// The package runs as a command (cmd/chaos, make chaos) and as a short test with the build tag kafka.
package chaos
