// Package realkafka finds or starts an Apache Kafka for tests. It never skips:
// where no broker can be had, that is an error which says what is missing.
//
// [Open] tries three ways, in this order:
//
//	address    BARNABAS_TEST_KAFKA names a running cluster; it is used as it is
//	container  a Docker engine answers and has the image: testcontainers starts it
//	jars       Apache Kafka's jars from Maven, run with Java (deploy/kafka-local/run)
//
// One broker serves a whole run of many test binaries: the command
// internal/testkit/cmd/with-kafka opens a cluster once, runs "go test" with
// BARNABAS_TEST_KAFKA set to its address, and closes it afterwards. So tests
// share the broker and must each use topics, groups and transactional ids of
// their own.
//
// A test that stops, kills or freezes the broker starts its own with
// [StartBroker]: it keeps its port and its data over restarts.
//
// Everything listens on loopback only. The package works on Unix systems.
package realkafka
