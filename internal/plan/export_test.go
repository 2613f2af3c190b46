package plan

// The constants of measured.go, for the tests that measure them.
const (
	KeyBytes  = keyBytes
	LaneBytes = laneBytes
)
