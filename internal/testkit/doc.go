// Package testkit is the root of what only tests use: a real Kafka to test
// against (realkafka) and the command that runs tests beside one. Nothing that
// ships imports it or anything below it.
package testkit
