// Package e2e runs the barnabas binary as its users do: real processes, real
// HTTP, killed with real signals, on a real broker.
//
// The same scenarios run on two brokers: the embedded one (make test), and with
// the build tag kafka on Apache Kafka (make test-kafka), where a missing broker
// is a failure. Schedules are short. Every test has topics, a consumer group and
// ports of its own, so that tests run side by side.
package e2e
