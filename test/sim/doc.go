// Package sim runs the whole application in a synctest bubble: several real
// processes (processor, API, franz-go's client, net/http) over an in-memory network
// to kfake and to scripted receivers. Time is virtual, so a day of retries takes a
// second or two.
//
//	network, conn   the wire: hosts that can be cut off or frozen, connections that
//	                buffer, latency, single requests and answers lost (wire)
//	world, process  the cluster and the processes: start, stop, crash, freeze
//	receiver, sub   subscribers: what they answer, and every POST that they saw
//	profile, plan   a seed's kind of world, and its schedule
//	run             goes through the schedule, then lets everything heal and settle
//	watch           what must hold at any moment: budgets, committed offsets, owners
//	ledger          what was handed over and accepted, and what was done to whom
//	reading         everything the cluster holds: logs, committed offsets, their maps
//	expected        what ought to be there, from the log alone, by the plainest means
//	oracle          holds one against the other, invariant by invariant (DESIGN.md section 3)
//	outage          everything fails for long, held to the document of barnabas plan
//	mutation        mistakes put into the engine, each of which the oracle must find
//
// # Seeds
//
// TestSeeds runs a few schedules, make sim SEEDS=n runs n. One that fails prints
// what was broken, the story of each delivery concerned, the schedule, and
//
//	go test ./test/sim -run TestSeeds -seed=N
//
// The day in which everything fails is that of 2 endpoints there; of 1,000 it takes some minutes of CPU:
//
//	BARNABAS_SIM_OUTAGE=1000 go test ./test/sim -run TestOutage_ADay -v -timeout 90m
//
// BARNABAS_SIM_LOG=debug (or info, warn) prints what the processes say, with the
// age of the world as time.
//
// A seed fixes the schedule and what receivers answer, and not the run: which
// goroutine goes first, the order of a map, which ready case a select takes, the ids
// of deliveries and the waits that the policy draws differ from run to run. So a
// seed that failed once may pass the next time; -count=20 -failfast finds it again.
//
// # What it cannot do
//
// Who waits for a mutex is not durably blocked, so a bubble's clock stands still
// while a mutex is held across anything that takes time. franz-go does so where
// several sinks ask for a producer id, so there is one broker. Freezing stalls a
// process's connections, not its goroutines: what it does meanwhile is bottled up,
// which is harder on fencing than SIGSTOP; that itself is for the chaos runs on real
// Kafka. kfake differs from Kafka in ways that are made up for in stampAtBroker,
// buryMembers and profile.configure, each with its reason.
package sim
