package job

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A bare name means the requester's job, then the only visible one. OWNER/NAME, NAME@RUN and a number are exact. A requester
// cannot distinguish a job that he may not see from one that does not exist.
func TestReferencesAreResolvedForTheRequester(t *testing.T) {
	t.Parallel()
	var table RunTable[*Job]
	for i, s := range []struct {
		name, owner, role string
		run               int
	}{
		{"train", "alice", "vision", 1},
		{"train", "bob", "speech", 2},
		{"train", "alice", "vision", 3},
		{"train", "bob", "speech", 4},
		{"eval", "unix:carl", "speech", 1},
		{"eval.v1", "", "web", 1},
		{"7", "alice", "vision", 1},
		{"plot", "a/b@corp", "vision", 1},
	} {
		table.Add(&Job{Spec: &Spec{Name: s.name, Owner: s.owner, Role: s.role}, Run: s.run, Number: i + 1, Submitted: time.Unix(int64(i), 0)})
	}
	const all, vision, speech = "vision speech web", "vision", "speech"
	for _, c := range []struct{ reference, requester, roles, want string }{
		{"train", "alice", all, "train@3 of alice"},
		{"train", "bob", all, "train@4 of bob"},
		{"train", "ops", all, "alice/train bob/train"},
		{"train", "ops", vision, "train@3 of alice"},
		{"train", "bob", vision, "train@3 of alice"},
		{"train", "ops", "web", ""},
		{"bob/train", "alice", all, "train@4 of bob"},
		{"bob/train", "alice", vision, ""},
		{"dora/train", "alice", all, ""},
		{"train@1", "alice", all, "train@1 of alice"},
		{"train@2", "alice", all, "train@2 of bob"},
		{"train@2", "alice", vision, ""},
		{"train@2", "ops", all, "train@2 of bob"},
		{"alice/train@2", "alice", all, ""},
		{"bob/train@2", "alice", all, "train@2 of bob"},
		{"train@9", "alice", all, ""},
		{"train@x", "alice", all, ""},
		{"carl/eval", "ops", all, "eval@1 of unix:carl"},
		{"unix:carl/eval", "ops", all, "eval@1 of unix:carl"},
		{"web/eval.v1", "ops", all, "eval.v1@1 of "},
		{"2", "alice", all, "train@2 of bob"},
		{"2", "alice", vision, ""},
		{"02", "alice", all, ""},
		{"7", "alice", all, "7@1 of alice"},
		{"7", "bob", all, "7@1 of alice"}, // its number is 7, too
		{"0", "alice", all, ""},
		{"a/b@corp/plot", "ops", all, "plot@1 of a/b@corp"},
		{"/train", "ops", all, ""},
		{"", "ops", all, ""},
	} {
		sees := func(role string) bool { return strings.Contains(c.roles, role) }
		run, _, found, candidates := table.Resolve(c.reference, c.requester, sees)
		got := QualifiedNames(candidates)
		if found {
			got = []string{run.RunID().String() + " of " + run.Spec.Owner}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q of %s, who sees %s: got %q, want %q", c.reference, c.requester, c.roles, text, c.want)
		}
	}
	for reference, want := range map[string]bool{"train": false, "bob/train": false, "train@3": true, "3": true} {
		if _, exact, found, _ := table.Resolve(reference, "alice", func(string) bool { return true }); exact != want || !found {
			t.Errorf("%s: exact is %t, want %t", reference, exact, want)
		}
	}
}

func TestRunsOfOwner(t *testing.T) {
	t.Parallel()
	var table RunTable[*Job]
	for i, owner := range []string{"alice", "bob", "alice", "bob"} {
		table.Add(&Job{Spec: &Spec{Name: "train", Owner: owner}, Run: i + 1})
	}
	for owner, want := range map[string]string{"alice": "[train@1 train@3]", "bob": "[train@2 train@4]", "carl": "[]"} {
		var runs []RunID
		for _, j := range table.RunsOfOwner(owner, "train") {
			runs = append(runs, j.RunID())
		}
		newest, ok := table.NewestOfOwner(owner, "train")
		if got := fmt.Sprint(runs); got != want || ok != (len(runs) > 0) || ok && newest.RunID() != runs[len(runs)-1] {
			t.Errorf("%s has the runs %s and the newest run %v, want %s", owner, got, newest, want)
		}
	}
}
