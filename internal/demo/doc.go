// Package demo is `barnabas demo`: the main job from end to end in under a
// minute, on an embedded broker, with a real process that is really killed.
//
//	send 1,000 events, one in ten of them twice, to three receivers:
//	  healthy   answers at once
//	  flaky     fails its first requests, so that its breaker opens, then works
//	  dead      fails everything, and comes back later
//	kill -9 the process half-way, start it again, go on sending with the same keys
//	wait until the dead receiver's deliveries are dead letters
//	the receiver comes back; replay the dead letters
//	count: what was accepted, and what became of it
//
// The sender is a service as it should be: it repeats a send that was not
// answered, with the same idempotency key, until it is.
package demo
