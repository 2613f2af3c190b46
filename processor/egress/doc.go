// Package egress decides where Barnabas may connect to, and connects.
//
// Every address is judged twice: when a URL is saved, as far as it can be known then (CheckURL), and for each
// connection on the address actually dialled (Dialer), after resolution. Only the second counts for safety: a
// name may resolve to something else at any time. The Dialer dials the checked address itself, never the name,
// so there is no gap between check and use.
//
// By default only public unicast addresses pass. An allow-list opens ranges; metadata services and loopback stay
// closed unless they are named themselves (see Guard.Check). Environment proxies are ignored; an explicit one is
// dialled without the guard, since the operator chose it, and nothing else is.
package egress
