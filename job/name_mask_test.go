package job

import (
	"slices"
	"strings"
	"testing"
)

// maskOf returns the mask of a reader who sees the jobs of some roles, in a cluster with the jobs train of prod, mine of lab/vision
// and free of prod.
func maskOf(sees ...string) *NameMask {
	roles := map[string]string{"train": "prod", "mine": "lab/vision", "free": "prod"}
	return &NameMask{
		RoleOf:   func(name string) (string, bool) { role, known := roles[name]; return role, known },
		SeesRole: func(role string) bool { return slices.Contains(sees, role) },
		KnowsRole: func(role string) bool {
			return slices.ContainsFunc(sees, func(of string) bool { return of == role || strings.HasPrefix(of, role+"/") })
		},
	}
}

// TestNamesAreMasked checks the sentences in which the scheduler names jobs, tasks and roles. A reader of lab/vision knows that
// there is a role lab above it.
func TestNamesAreMasked(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"makes room for train", "makes room for another job"},
		{"makes room for gone: role prod deserves the GPUs", "makes room for another job: another role deserves the GPUs"},
		{"attempt 1 was stopped: makes room for train: role prod is entitled to the GPUs",
			"attempt 1 was stopped: makes room for another job: another role is entitled to the GPUs"},
		{"makes room for mine", "makes room for mine"},
		{"GPUs that no other role deserves; free ones are reserved for train, whose role deserves them; 1 of 2 tasks waits",
			"GPUs that no other role deserves; free ones are reserved for another job, whose role deserves them; 1 of 2 tasks waits"},
		{"what role lab/vision deserves; tasks end for train of role prod, which does not borrow until then",
			"what role lab/vision deserves; tasks end for another job of another role, which does not borrow until then"},
		{"a place that train will not need; train goes first and starts within 10s, a run_time that ends before would fit",
			"a place that another job will not need; another job goes first and starts within 10s, a run_time that ends before would fit"},
		{"room in the quota of role lab for 1 more; it may hold 2 GPUs and holds 1.9, and train goes first",
			"room in the quota of role lab for 1 more; it may hold 2 GPUs and holds 1.9, and another job goes first"},
		{"1 GPU that role lab/vision deserves; it deserves 4 GPUs and holds 2; 1 task of role prod, which borrows 2 GPUs, ends within 5s",
			"1 GPU that role lab/vision deserves; it deserves 4 GPUs and holds 2; 1 task of another role, which borrows 2 GPUs, ends within 5s"},
		{"1 agent that would fit is held back: 10.0.0.5 (it offers GPU GPU-1, which task train.0.1.dopp4od8ie2s holds: not known to have ended), with 1 free GPU",
			"1 agent that would fit is held back: 10.0.0.5 (it offers GPU GPU-1, which another task holds: not known to have ended), with 1 free GPU"},
		{"it offers GPU GPU-1, which task mine.0.1.dopp4od8ie2s holds: running", "it offers GPU GPU-1, which task mine.0.1.dopp4od8ie2s holds: running"},
		{"it offers GPU GPU-1, which task gone.0.1.dopp4od8ie2s holds: running", "it offers GPU GPU-1, which another task holds: running"},
		{"job train is FAILED", "another job is FAILED"},
		// Words that are no names, also where a hidden job has such a name.
		{"2 free V100 on one agent; 41 agents have the type, 5 have 1 free; 3 of 8 tasks wait", "2 free V100 on one agent; 41 agents have the type, 5 have 1 free; 3 of 8 tasks wait"},
		{"1 GPU that role lab deserves; free GPUs are reserved for it until Mesos offers them", "1 GPU that role lab deserves; free GPUs are reserved for it until Mesos offers them"},
		{"; nothing ends for it: 2 tasks of roles that hold more than their part would not make room for it", "; nothing ends for it: 2 tasks of roles that hold more than their part would not make room for it"},
		{"; no other role holds more than its part", "; no other role holds more than its part"},
		{"exited with status 1", "exited with status 1"},
		{"", ""},
	} {
		if got := maskOf("lab/vision").MaskText(c.text); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
		if got := maskOf("lab", "prod").MaskText("makes room for train: role prod deserves the GPUs"); !strings.Contains(got, "train: role prod") {
			t.Errorf("a reader who sees them reads %s", got)
		}
	}
	var none *NameMask
	if got := none.MaskText("makes room for train"); got != "makes room for train" {
		t.Errorf("the nil mask returns %q", got)
	}
}

// TestMaskedTasks checks who stopped a task: a user, or a job that the reader may not see, or that is not known any more.
func TestMaskedTasks(t *testing.T) {
	tasks := []Task{
		{ID: "user", KilledBy: "train"},
		{ID: "hidden", KillReason: KillByPreemption, KilledBy: "train", Message: "makes room for train"},
		{ID: "gone", KillReason: KillByPreemption, KilledBy: "gone"},
		{ID: "own", KillReason: KillByPreemption, KilledBy: "mine"},
		{ID: "drained", KillReason: KillByDrain},
	}
	before := slices.Clone(tasks)
	masked := maskOf("lab/vision").MaskTasks(tasks)
	for i, want := range []string{"train", AnotherJob, AnotherJob, "mine", ""} {
		if got := masked[i].KilledBy; got != want {
			t.Errorf("%s is killed by %q, want %q", masked[i].ID, got, want)
		}
		if tasks[i].KilledBy != before[i].KilledBy || tasks[i].Message != before[i].Message {
			t.Errorf("the original is %+v", tasks[i])
		}
	}
	if masked[1].Message != "makes room for another job" {
		t.Errorf("message %q", masked[1].Message)
	}
}
