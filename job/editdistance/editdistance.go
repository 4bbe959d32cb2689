// Package editdistance computes how far a misspelt name is from known ones. It is pure. Callers
// decide which distance is too large.
package editdistance

// Distance returns how many letters must be inserted, deleted, replaced or swapped with
// the next one to turn a into b.
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

// Nearest returns the first of the names with the smallest distance to name. It returns
// "" if all are another word: at a distance of 3, or of more than a third of the letters.
func Nearest(name string, among []string) string {
	best, distance := "", 3
	for _, one := range among {
		if d := Distance(name, one); d < distance && 3*d <= max(len(name), len(one)) {
			best, distance = one, d
		}
	}
	return best
}
