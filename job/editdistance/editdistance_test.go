package editdistance

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "gpus", 4}, {"gpus", "", 4}, {"gpus", "gpus", 0},
		{"gpu_typ", "gpu_type", 1}, {"instnaces", "instances", 1}, {"gpsu", "gpus", 1}, {"ab", "ba", 1}, {"kitten", "sitting", 3},
	} {
		if got, back := Distance(c.a, c.b), Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q are %d and %d apart, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name, want string
		among      []string
	}{
		{"limt", "limit", []string{"after", "limit"}},
		{"gpus", "gpus", []string{"gpu", "gpus"}},  // nearer, although it comes later
		{"jab", "job", []string{"job", "lab"}},     // equal distances: the first
		{"x", "", []string{"y"}},                   // all letters differ
		{"colour", "", []string{"limit", "after"}}, // another word
		{"limt", "", nil},
		{"gpsu", "gpus", []string{"after", "gpus"}}, // two letters are swapped
		{"spec", "", []string{"ipc"}},               // half of the letters differ
		{"colmands", "commands", []string{"commands"}},
	} {
		if got := Nearest(c.name, c.among); got != c.want {
			t.Errorf("%q of %q is %q, want %q", c.name, c.among, got, c.want)
		}
	}
}
