package plan

// What a process keeps for each thing, in bytes of its heap. Each was measured, and is measured anew by a test that
// fails when the number no longer covers it, or covers far too much. Rounded up.
const (
	// keyBytes is one idempotency key in the arbiter, in the worst moment of the maps' growth: 126 to 183 on go1.26
	// linux/amd64 (TestMeasured_Key).
	keyBytes = 200
	// keyDiskBytes is one idempotency key on disk, where claims.directory is set, and keyCacheBytes what of claims.cache it
	// needs beside cacheBase: measured by processor/claimstore, see docs/adr/0010-claims-on-local-disk.md.
	keyDiskBytes  = 64
	keyCacheBytes = 1.25
	cacheBase     = 32 << 20
	// laneBytes is one endpoint in the process that owns its unit, lane, breaker and alarm: 823 to 828 there, with its
	// breaker open (TestMeasured_Lane).
	laneBytes = 900
	// endpointBytes is one endpoint in the table that every process has: 988 there (TestTable_IsLean of
	// processor/endpoint, which allows no more than 1,500).
	endpointBytes = 1000
	// outsideHeap is what a process needs beyond the soft limit of its runtime, the binary's own pages above all: with it, an
	// installation of defaults gets limits.memory + 256 MiB, which test/memory never saw exceeded.
	outsideHeap = 96 << 20
)
