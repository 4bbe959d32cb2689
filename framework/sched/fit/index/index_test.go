package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestTableNumbersValuesInOrder(t *testing.T) {
	var table Table[string]
	get := func(key string) string {
		return table.Get(append(table.Scratch(), key...), func(id int32) string { return key + string('0'+rune(id)) })
	}
	for _, want := range []string{"a0", "b1", "a0"} {
		if got := get(want[:1]); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	table.Clear()
	if got := get("b"); got != "b0" || table.Len() != 1 {
		t.Errorf("got %s, %d values after Clear", got, table.Len())
	}
}

func TestRecentDropsAllWhenFull(t *testing.T) {
	var recent Recent[int]
	created := 0
	get := func(n int) {
		if got := *recent.Get(func(v *int) bool { return *v == n }, func() int { created++; return n }); got != n {
			t.Errorf("got %d, want %d", got, n)
		}
	}
	for n := range maxRecent {
		get(n)
	}
	get(0)
	if created != maxRecent {
		t.Errorf("%d values were created, want %d", created, maxRecent)
	}
	get(maxRecent)
	if len(recent.values) != 1 {
		t.Errorf("%d values are stored, want 1", len(recent.values))
	}
}

func TestColumn(t *testing.T) {
	c := NewColumn(3, func(i int) (string, bool) { return "x", i != 1 })
	if !slices.Equal(c.IDs(), []int32{0, NoValue, 0}) || !slices.Equal(c.Values(), []string{"x"}) {
		t.Errorf("got %v of %v", c.IDs(), c.Values())
	}
	if _, ok := c.Find("y"); ok {
		t.Error("a value that no agent has was found")
	}
}

func TestScanComputesOncePerState(t *testing.T) {
	var scan Scan[int]
	calls := 0
	compute := func() int { calls++; return calls }
	for range 2 {
		scan.Begin()
		scan.Get(1, compute)
		scan.Get(1, compute)
	}
	if calls != 2 {
		t.Errorf("computed %d times, want once per scan", calls)
	}
}

// TestRankingEqualsFullScan changes scores at random. The best agent by the log must be the one that a search of all
// scores finds.
func TestRankingEqualsFullScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const agents, classes = 2*blockSize + 3, 3
		var rankings Rankings
		rankings.Reset(agents)
		rankings.SetLimit(rapid.IntRange(1, classes).Draw(t, "limit"))
		var scores [classes][agents]int64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "change") {
				i := rapid.SampledFrom([]int{0, 1, blockSize - 1, blockSize, blockSize + 1, agents - 2, agents - 1}).Draw(t, "agent")
				for class := range scores {
					scores[class][i] = int64(rapid.IntRange(0, 3).Draw(t, "score"))
				}
				rankings.AgentChanged(i)
				continue
			}
			class := rapid.IntRange(0, classes-1).Draw(t, "class")
			of := &scores[class]
			r := rankings.Get(int32(class), func(all []int64) { copy(all, of[:]) }, func(i int) int64 { return of[i] })
			want := -1
			for i, score := range of {
				if score > 0 && (want < 0 || score > of[want]) {
					want = i
				}
			}
			if got := r.Best(); got != want || !slices.Equal(r.Scores(), of[:]) {
				t.Fatalf("best is %d of %v, want %d of %v", got, r.Scores(), want, of)
			}
			if n := rankings.Len(); n > rankings.limit {
				t.Fatalf("%d rankings are cached, limit %d", n, rankings.limit)
			}
		}
	})
}
