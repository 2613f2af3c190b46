// Package obs is what can be seen of a process from outside: its logs, its
// metrics, its health and its version.
//
//	Logger    slog in text or JSON, constant keys (keys.go)
//	Quiet     a handler for the logs of things that retry by themselves: a few
//	          lines per minute and cause, with a count of what was left out
//	Server    /metrics, /healthz, /readyz and, when asked for, /debug/pprof
//	Readiness named checks with reasons; ready is when every one passes
//	Build     version, commit and Go release
//
// Nothing here reaches out: a scrape or a health check reads what the parts of
// the process have left in memory, and calls no broker.
package obs
