package fit

import "math/bits"

func wordCount(slots int) int { return (slots + 63) / 64 }

func countBits(mask []uint64) int {
	n := 0
	for _, m := range mask {
		n += bits.OnesCount64(m)
	}
	return n
}

// listBits appends the slots of a mask in order.
func listBits(mask []uint64, to []int) []int {
	for w, m := range mask {
		for ; m != 0; m &= m - 1 {
			to = append(to, w*64+bits.TrailingZeros64(m))
		}
	}
	return to
}
