// Package spell tells how far a misspelt name is from one that there is. It is
// pure, and leaves it to its callers how far is too far.
package spell

// Distance counts the letters to insert, delete, replace or swap with the next.
func Distance(a, b string) int {
	last, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], last[j-1]+1)
			}
		}
		last, row, next = row, next, last
	}
	return row[len(b)]
}

// Nearest is the first of the names that are least far from a misspelt one, ""
// where all are another word: three letters away, or more than a third of them.
func Nearest(name string, among []string) string {
	best, distance := "", 3
	for _, one := range among {
		if d := Distance(name, one); d < distance && 3*d <= max(len(name), len(one)) {
			best, distance = one, d
		}
	}
	return best
}
