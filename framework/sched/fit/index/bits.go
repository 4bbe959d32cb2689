package index

import (
	"iter"
	"math/bits"
)

// Bits is a set of small numbers, such as the slots of an agent. It has a fixed size.
type Bits []uint64

// WordCount returns the length of Bits for the numbers 0 to n-1.
func WordCount(n int) int { return (n + 63) / 64 }

// NewBits returns an empty set for the numbers 0 to n-1.
func NewBits(n int) Bits { return make(Bits, WordCount(n)) }

// Has reports whether the set contains i.
func (b Bits) Has(i int) bool { return b[i/64]>>(i%64)&1 != 0 }

// Add adds i to the set.
func (b Bits) Add(i int) { b[i/64] |= 1 << (i % 64) }

// Remove removes i from the set.
func (b Bits) Remove(i int) { b[i/64] &^= 1 << (i % 64) }

// Len returns how many numbers the set contains.
func (b Bits) Len() int {
	n := 0
	for _, word := range b {
		n += bits.OnesCount64(word)
	}
	return n
}

// All yields the numbers in the set in order. The caller may remove the number that it received last.
func (b Bits) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for w, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(w*64 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}
