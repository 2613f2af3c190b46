// Package sim runs the whole application in a synctest bubble: the real
// processor, franz-go's client, net/http, over an in-memory network to kfake and
// to scripted receivers. Time is virtual, so a day of retries takes a second.
//
// A World is one such run. It keeps a ledger of everything accepted and of every
// POST that a receiver saw, against which the oracle checks the invariants.
package sim
