// Package peak counts what comes together, for tests of how things are spread.
package peak

import "time"

// Within is the largest number of times in any window of this length, both ends included. The times are ascending.
func Within(times []time.Time, window time.Duration) int {
	most, from := 0, 0
	for to := range times {
		for times[to].Sub(times[from]) > window {
			from++
		}
		most = max(most, to-from+1)
	}
	return most
}
