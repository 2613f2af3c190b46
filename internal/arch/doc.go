// Package arch holds the project's import rules: which package may know which.
//
//	words      what is written to Kafka, the policy, and what everybody says or hides
//	catalogue  the topics
//	parts      one concern of a delivery each; none knows another
//	joined     parts that need another part
//	attempt    one attempt; facts restored; dead letters
//	unit       one unit's state machine
//	processor  the story of one delivery
//	surface    what the outside sees
//	access     how the surface is reached and the whole is configured
//	whole      wiring and life cycle
//	command    flags and exit codes
//	proof      what only tests use; may know everything
//
// A package imports only lower layers, which the table in layers.go spells out
// with its reasons, and some are held to less. The test of this package checks
// the tree against the table on every run of the tests. It parses the imports
// itself, of every file whatever its build tags: a test that asked "go list"
// would pass from the test cache after a change elsewhere.
//
// Which foreign modules may be imported where is .golangci.yml's matter (depguard).
package arch
