// Package app wires the parts of Barnabas into a process and gives it a life:
// New builds everything or nothing, Run starts it and stops it in order.
//
//	start: topics verified ─▶ endpoint table ─▶ processor, API ─▶ operators' listener
//	stop:  API takes no more ─▶ processor drains, settles, leaves ─▶ clients close
//
// Each step of the stop is bounded, and the log says which ran out of time.
package app
