package arch

import "strings"

// Module is the path that our own imports start with.
const Module = "github.com/barnabas-webhooks/barnabas"

// Package is one row of the table.
type Package struct {
	// Path is relative to the module's root; one that ends in "/..." stands for a folder and all below it.
	Path string
	// Only, when not nil, is all of our own that the package may import: less than its layer would allow.
	Only []string
	// Why says what the package is for, or why it is held to less.
	Why string
}

// Layer is a set of packages that do not know one another.
type Layer struct {
	Name     string
	Packages []Package
	// Open lets the layer's packages import one another too.
	Open bool
	// TestsOnly keeps the layer out of every file that is not a test, but for its own.
	TestsOnly bool
}

// Layers is the table, lowest first.
func Layers() []Layer {
	nothing := []string{}
	return []Layer{
		{Name: "records", Packages: []Package{
			{Path: "schemas", Only: nothing, Why: "what lies in Kafka for weeks must not depend on today's code"},
		}},
		{Name: "words", Packages: []Package{
			{Path: "retry", Only: nothing, Why: "the policy is pure: it can be printed, drawn and tested by itself"},
			{Path: "internal/secret", Only: nothing, Why: "values that must not be shown"},
			{Path: "internal/obs", Only: nothing, Why: "log keys, metrics and health: everybody may report"},
		}},
		{Name: "catalogue", Packages: []Package{
			{Path: "topics", Only: []string{"schemas"}, Why: "names and settings of topics, with the records' limits; the CLI uses it without a processor"},
		}},
		{Name: "parts", Packages: []Package{
			{Path: "processor/sign", Only: nothing, Why: "signatures are checked against other people's code, so they stand alone"},
			{Path: "processor/egress", Why: "the guard on what is dialled; the API asks it too"},
			{Path: "processor/tracker", Only: nothing, Why: "offsets in, commit out: arithmetic, fuzzed against a naive model"},
			{Path: "processor/lane", Why: "queues of one unit"},
			{Path: "processor/line", Only: []string{"schemas"}, Why: "the line of a strict endpoint: pure, and held against the plainest line"},
			{Path: "processor/aimd", Only: nothing, Why: "how many requests one endpoint bears: arithmetic"},
			{Path: "processor/breaker", Why: "state machine of one endpoint's health"},
			{Path: "processor/caps", Why: "what units share: in flight, bytes, rate"},
			{Path: "processor/lease", Why: "whether a process may still take its units for its own"},
			{Path: "processor/claim", Only: []string{"schemas"}, Why: "verdicts by log order: pure, with what it remembers behind an interface"},
			{Path: "processor/balance", Only: nothing, Why: "which member owns which unit: a pure assignment"},
			{Path: "internal/kafka", Why: "options of the Kafka client"},
			{Path: "internal/devbroker", Why: "the embedded broker stands in for Kafka, and like Kafka knows nothing of us"},
		}},
		{Name: "joined", Packages: []Package{
			{Path: "processor/endpoint", Why: "endpoint configuration: seals and parses signing keys"},
			{Path: "processor/settle", Why: "the transaction per beat, with the trackers' commits"},
			{
				Path: "processor/claimstore", Only: []string{"schemas", "internal/obs", "processor/claim"},
				Why: "claims on local disk: the only package that knows the embedded database",
			},
			{Path: "processor/metrics", Why: "what the processor counts"},
		}},
		{Name: "attempt", Packages: []Package{
			{Path: "processor/facts", Why: "compacted topics: claims and breakers written outside transactions, lines by the settler; read back"},
			{Path: "processor/deliver", Why: "one attempt: signs with the endpoint's keys, sends through the guard"},
			{
				Path: "dlq", Only: []string{"schemas", "topics", "retry", "processor/endpoint"},
				Why: "dead letters and replay run from the CLI, where no processor is",
			},
		}},
		{Name: "unit", Packages: []Package{
			{Path: "processor/unit", Why: "one goroutine that owns a unit's state"},
		}},
		{Name: "processor", Packages: []Package{
			{Path: "processor", Why: "ownership, poller and units together"},
		}},
		{Name: "surface", Packages: []Package{
			{Path: "internal/api", Why: "HTTP in front of Kafka; it never reaches into a processor"},
			{Path: "internal/plan", Why: "schedule, bounds and needs, from volume and configuration: the parts' own Config types, no file of settings"},
			{Path: "internal/listen", Why: "the development receiver: verifies signatures as any receiver would"},
		}},
		{Name: "access", Packages: []Package{
			{Path: "internal/api/client", Why: "what the CLI calls the API with, in the API's own types"},
			{Path: "internal/config", Why: "file, environment and flags to the Config of every package below"},
		}},
		{Name: "whole", Packages: []Package{
			{Path: "internal/app", Why: "wiring and life cycle of one process"},
			{Path: "internal/demo", Why: "make demo: runs the whole and judges it"},
		}},
		{Name: "command", Open: true, Packages: []Package{
			{Path: "cmd/...", Why: "flags, exit codes, output"},
		}},
		{Name: "proof", Open: true, TestsOnly: true, Packages: []Package{
			{Path: "internal/arch", Only: nothing, Why: "this table"},
			{Path: "internal/testkit/...", Why: "what tests share"},
			{Path: "test/...", Why: "simulation, end to end, interoperability, benchmarks"},
		}},
	}
}

// BannedNames returns names of folders and files that say nothing of what is in them.
func BannedNames() []string {
	return []string{
		"base", "common", "helper", "helpers", "lib", "misc", "mock", "mocks", "model", "models",
		"pkg", "shared", "stuff", "types", "util", "utils",
	}
}

// matches says whether a row's path stands for the package.
func matches(row, pkg string) bool {
	if folder, all := strings.CutSuffix(row, "/..."); all {
		return pkg == folder || strings.HasPrefix(pkg, folder+"/")
	}
	return row == pkg
}
