package readmodel

import (
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// ownedRun returns a run of the job train.
func ownedRun(owner string, run int, s job.State) *job.Job {
	j := frameworktest.JobInStates("train", int64(run), s)
	j.Spec.Owner, j.Spec.Group, j.Run, j.Number = owner, "g", run, run
	j.Tasks[0].Run, j.Tasks[0].ID = run, "train.0."+j.RunID().String()
	return j
}

func listedRuns(jobs []api.JobView) string {
	var names []string
	for i := range jobs {
		names = append(names, jobs[i].RunID().String())
	}
	return strings.Join(names, " ")
}

// Lists have the newest run of each owner's job, and the runs of a job are those of its owner.
func TestListsHaveTheNewestRunOfEachOwner(t *testing.T) {
	runs := []*job.Job{
		ownedRun("alice", 1, job.Killed), ownedRun("bob", 2, job.Failed), ownedRun("alice", 3, job.Finished), ownedRun("bob", 4, job.Running),
	}
	applied := New(journal.JournalContents{})
	for _, j := range runs {
		applied.ApplyChange(frameworktest.ChangeOf(j))
	}
	for how, m := range map[string]*Model{"as changes": applied, "from a journal": New(journal.JournalContents{Jobs: runs})} {
		check := func(when, want string, groups int) {
			t.Helper()
			list, err := m.ListJobs(request.JobQuery{})
			if got := listedRuns(list.Jobs); got != want || err != nil {
				t.Errorf("%s, %s: the list has %s, %v; want %s", how, when, got, err, want)
			}
			if n := len(m.ListGroupJobs("g")); n != groups {
				t.Errorf("%s, %s: the group has %d jobs, want %d", how, when, n, groups)
			}
		}
		check("all", "train@3 train@4", 2)
		for of, want := range map[string]string{"train@1": "train@1 train@3", "train@3": "train@1 train@3", "train@4": "train@2 train@4"} {
			list, err := m.ListJobs(request.JobQuery{RunsOf: of})
			if got := listedRuns(list.Jobs); got != want || err != nil {
				t.Errorf("%s: the runs of the owner of %s are %s, %v; want %s", how, of, got, err, want)
			}
		}
		m.ApplyChange(journal.Change{Removed: []job.RunID{{Name: "train", Run: 3}}})
		check("without run 3", "train@1 train@4", 2)
		m.ApplyChange(journal.Change{Removed: []job.RunID{{Name: "train", Run: 1}}})
		check("without alice's", "train@4", 1)
	}
}

// A stream of a name has the events of its owner's runs, also of later ones; a stream of a run has those of the run.
func TestEventStreamsFollowTheOwnersRuns(t *testing.T) {
	m := New(journal.JournalContents{})
	m.ApplyChange(frameworktest.ChangeOf(ownedRun("alice", 1, job.Finished)))
	m.ApplyChange(frameworktest.ChangeOf(ownedRun("bob", 2, job.Finished)))
	queries := map[string]request.EventQuery{
		"train.0.train@1 train.0.train@3": {Job: "train", Owner: "alice"},
		"train.0.train@2 train.0.train@4": {Job: "train", Owner: "bob"},
		"train.0.train@1":                 {Job: "train@1", Owner: "alice"},
	}
	streams := map[string]*eventStream{}
	got := map[string][]string{}
	read := func() {
		for want, s := range streams {
			for _, ev := range readAvailable(t, s) {
				got[want] = append(got[want], ev.Task)
			}
		}
	}
	for want, q := range queries {
		streams[want] = openTestStream(t, m, q)
	}
	read()
	m.ApplyChange(frameworktest.ChangeOf(ownedRun("alice", 3, job.Running)))
	m.ApplyChange(frameworktest.ChangeOf(ownedRun("bob", 4, job.Running)))
	read()
	for want := range queries {
		if text := strings.Join(got[want], " "); text != want {
			t.Errorf("got %s, want %s", text, want)
		}
	}
	if _, err := m.openStream(request.EventQuery{Job: "train", Owner: "carl"}); err == nil {
		t.Error("carl has no job of the name")
	}
}
