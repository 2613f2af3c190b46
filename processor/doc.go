// Package processor delivers webhooks: it is the story of one event, from the
// topic it was put in to the transaction that settles it. Its parts are the
// packages below it.
//
//		poll ──▶ unit ──▶ tracker ──▶ arbiter ──▶ lane ──▶ breaker, caps ──▶ attempt
//		          ▲        (open)     (verdict)                                 │
//		          │                                                             ▼
//		        settle ◀────────────────── outcome ◀────────── decision ◀── result
//
//	 1. The poller (poller.go) fetches records of all unit topics and hands each
//	    to the unit of its partition number. It never blocks: what must not come in
//	    is paused.
//	 2. The unit (package unit) opens it in its tracker, gets the arbiter's verdict
//	    (package claim), and puts the delivery into its endpoint's lane.
//	 3. At its turn the lane's breaker, rate and width and the process's cap admit
//	    it; package deliver makes one attempt.
//	 4. Package retry decides what follows: delivered, retry, hold, dead.
//	 5. Package settle writes what that implies and the offsets, in one transaction.
//	 6. What waits is read from its tier when due and joins the same lane.
//
// Ownership (ownership.go): one consumer group subscribes to all unit topics, and
// package balance keeps each unit whole on one member. A unit is restored from
// the compacted topics (package facts) before it works, drained before it is
// given up, and dropped when it is lost. A process that was silent for longer
// than the group's session starts nothing before it is confirmed (package lease).
package processor
