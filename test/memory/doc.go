// Package memory measures what one process needs while far more waits than it may hold, on a real Apache Kafka.
//
//	preload    millions of events of random bytes for thousands of endpoints, before any processor runs
//	endpoints  all dead: a third refuses connections, a third takes the request and never answers, a third answers
//	           500; beside them a few healthy ones, some in the dead ones' partitions and some in partitions of their own
//	process    one `barnabas serve` with both roles and the defaults of the configuration
//	watch      each second its resident memory, descriptors and metrics, the group's lag and what waits in the tiers
//	end        when all that was preloaded has been taken in once, and what was sent to the tiers has had time to come back
//
// The healthy endpoints get some of the preloaded events, spread among the dead ones', and a trickle of live ones: that
// memory stays bounded is worth nothing if it is bounded by standing still.
//
// What is settled is deleted from the broker while the run goes on, or the rounds that held deliveries make would fill
// the disk. The package runs as a command: cmd/memory, make memory.
package memory
