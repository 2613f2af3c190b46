package settle

import "slices"

// leastShare is what every unit may settle in one beat, in bytes, however many there are.
const leastShare = 64 << 10

// shareOf says how much each may have at most of a total: all the same, and as much as the others leave of it (max-min fairness). It
// sorts what they want.
func shareOf(total int64, wants []int64) int64 {
	slices.Sort(wants)
	share := total
	for i, want := range wants {
		share = total / int64(len(wants)-i)
		if want > share {
			break
		}
		total -= want
	}
	return max(share, leastShare)
}
