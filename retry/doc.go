// Package retry is the retry policy, pure: it classifies what an attempt came
// to, decides what follows, and draws every wait. It takes the time and the
// random number as arguments and does nothing by itself.
package retry
