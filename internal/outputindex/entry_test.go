package outputindex

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func drawEntries(t *rapid.T) []Entry {
	var entries []Entry
	if rapid.Bool().Draw(t, "unknown time") {
		entries = append(entries, Entry{})
	}
	at := Entry{Time: time.UnixMicro(1_700_000_000_000_000)}
	for range rapid.IntRange(0, 40).Draw(t, "entries") {
		at.Time = at.Time.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Microsecond)
		for s := range streamCount {
			if rapid.Bool().Draw(t, "grows") {
				at.Ends[s] += int64(rapid.IntRange(1, 100).Draw(t, "bytes"))
			}
			if rapid.IntRange(0, 5).Draw(t, "rotates") == 0 {
				at.Starts[s] = at.Ends[s]
			}
		}
		entries = append(entries, at)
	}
	return entries
}

// What was written is read again, and a last line without an end is not.
func TestEntriesAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		var text []byte
		for _, e := range entries {
			text = e.AppendLine(text)
		}
		if diff := cmp.Diff(entries, ParseEntries(text)); diff != "" {
			t.Error(diff)
		}
		if len(entries) > 0 {
			if diff := cmp.Diff(entries[:len(entries)-1], ParseEntries(text[:len(text)-1]), cmp.Transformer("",
				func(e []Entry) []Entry { return slices.Clip(e) })); diff != "" && len(entries) > 1 {
				t.Error(diff)
			}
		}
	})
}

// ThinOut keeps the first and the last entry, keeps an order, and removes at least a quarter of a long list.
func TestThinOutKeepsTheEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		thin := ThinOut(entries)
		if len(entries) == 0 {
			if len(thin) > 0 {
				t.Error("entries were made up")
			}
			return
		}
		if thin[0] != entries[0] || thin[len(thin)-1] != entries[len(entries)-1] {
			t.Errorf("the first or last entry is gone: %v", thin)
		}
		if len(entries) > 4 && len(thin) > len(entries)*3/4+1 {
			t.Errorf("%d of %d entries are left", len(thin), len(entries))
		}
		for i, e := range thin {
			if i > 0 && !e.Follows(thin[i-1]) || !slices.Contains(entries, e) {
				t.Errorf("entry %d does not belong there: %v", i, e)
			}
		}
	})
}

// Alternating streams keep their order if one stream has enough entries to remove.
func TestThinOutKeepsTheOrderOfStreams(t *testing.T) {
	var entries []Entry
	var at Entry
	add := func(s Stream) {
		at.Time = at.Time.Add(time.Millisecond)
		at.Ends[s]++
		entries = append(entries, at)
	}
	for range 10 {
		for range 20 {
			add(Stdout)
		}
		add(Stderr)
	}
	thin := ThinOut(entries)
	for i, e := range thin[1:] {
		if e.grownStreams(thin[i]) == 3 {
			t.Fatalf("the order of both streams is lost at %v", e)
		}
	}
	if len(thin) > len(entries)*2/3 {
		t.Errorf("%d of %d entries are left", len(thin), len(entries))
	}
}

func TestForgedLinesAreSkipped(t *testing.T) {
	text := "5 1 1 0 0\nrm -rf\n6 0 1 0 0\n7 -1 1 0 0\n8 2 9 3 0\n4 2 2 0 0\n9 2 2 0 0 0\n9 2 2 1 0\n"
	want := []Entry{{time.UnixMicro(5), Positions{1, 1}, Positions{}}, {time.UnixMicro(9), Positions{2, 2}, Positions{1, 0}}}
	if diff := cmp.Diff(want, ParseEntries([]byte(text))); diff != "" {
		t.Error(diff)
	}
}
