package job

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestParseRunIDReturnsWhatStringWrote(t *testing.T) {
	for _, id := range []RunID{{"train", 1}, {"a.b-c_d", 12}} {
		if got, ok := ParseRunID(id.String()); !ok || got != id {
			t.Errorf("%s is read as %+v, %t", id, got, ok)
		}
	}
	if got, ok := ParseRunID("train"); !ok || got != (RunID{Name: "train"}) {
		t.Errorf("a name is read as %+v, %t", got, ok)
	}
	for _, text := range []string{"train@", "train@0", "train@-1", "train@01", "train@+1", "train@x", "train@1@2", "train@99999999999999999999"} {
		if got, ok := ParseRunID(text); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

// TestRunTableFindsRuns compares a RunTable with a list of runs.
func TestRunTableFindsRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table RunTable[*Job]
		lists := map[string][]*Job{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
			if n := len(lists[name]); n > 0 && rapid.Bool().Draw(t, "remove") {
				i := rapid.IntRange(0, n-1).Draw(t, "index")
				gone := lists[name][i]
				lists[name] = slices.Delete(lists[name], i, i+1)
				table.Remove(gone)
				table.Remove(gone) // has no effect
			} else {
				j := &Job{Spec: &Spec{Name: name}, Run: 1}
				if n > 0 {
					j.Run = lists[name][n-1].Run + rapid.IntRange(1, 3).Draw(t, "skip")
				}
				lists[name] = append(lists[name], j)
				table.Add(j)
			}
			for name, list := range lists {
				if got := table.RunsOf(name); !slices.Equal(got, list) {
					t.Fatalf("%s has %d runs, want %d", name, len(got), len(list))
				}
				newest, ok := table.Find(name)
				if ok != (len(list) > 0) || ok && newest != list[len(list)-1] {
					t.Fatalf("the newest of %s is %v", name, newest)
				}
				for run := range 12 {
					i := slices.IndexFunc(list, func(j *Job) bool { return j.Run == run })
					if got, ok := table.Find(fmt.Sprintf("%s@%d", name, run)); ok != (i >= 0) || ok && got != list[i] {
						t.Fatalf("%s@%d is %v, %t", name, run, got, ok)
					}
				}
			}
			if table.Len() != len(lists["a"])+len(lists["b"]) {
				t.Fatalf("%d runs are counted", table.Len())
			}
		}
	})
}
