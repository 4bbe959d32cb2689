// Package spell tells how far a misspelt name is from one that there is. It is
// pure, and leaves it to its callers how far is too far.
package spell

// Distance is Levenshtein's: the letters to insert, delete or replace.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Nearest is the first of the names that are least far from a misspelt one, ""
// where all are another word: three letters away, or as many as it has.
func Nearest(name string, among []string) string {
	best, distance := "", min(3, len(name))
	for _, one := range among {
		if d := Distance(name, one); d < distance {
			best, distance = one, d
		}
	}
	return best
}
