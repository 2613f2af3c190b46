// Package bench measures the whole system on a real Apache Kafka beside a bare loop that signs and POSTs the same payloads
// to the same receiver with Go's net/http: make bench. What a machine does in a second says little about another machine,
// so what counts is the ratio of the two, measured in turns in one run.
//
//	broker    one Apache Kafka of its own, from its jars
//	system    the real binary: one process for the processor, one or two for the API, fresh topics and group each time
//	receiver  a process of its own; notes when each event arrived and answers with counts and exact quantiles
//	bare      the bare loop, a process of its own
//	plain     a plain consumer of a plain topic, a process of its own: what Kafka alone takes
//	load      in this process
//
// Receiver, bare loop and plain consumer are processes of their own (sub-commands of the same binary), so that processor
// time is charged to whom it belongs. Every payload says when it was made; all clocks are this machine's.
//
// A scenario (the list is in scenarios.go) has variants, which are measured one after the other, and rounds of that: A B,
// B A, A B. Its figures are medians over the rounds; ratios are medians of the ratios of each round. Targets (targets.go)
// are held against those. The package runs as a command: cmd/bench; docs/performance.md says how to read it.
package bench
