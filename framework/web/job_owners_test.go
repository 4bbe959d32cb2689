package web_test

import (
	"slices"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestJobsOfOneNameAndTwoOwners opens the jobs of one name of two users: the list has both, the page of the name shows the
// reader's job, and each action is about the run that is shown.
func TestJobsOfOneNameAndTwoOwners(t *testing.T) {
	f := newFakeCluster(1, 0)
	view := func(owner string, run int, s job.State) api.JobView {
		j := job.Job{Spec: &job.Spec{Name: "train", Owner: owner, Role: "research", Tasks: 1, Request: gpu.Request{GPUs: 1}}, Run: run, Submitted: time.Now()}
		id := "train.0.1." + owner
		j.Tasks = []job.Task{{ID: id, Job: "train", Run: run, State: s, Attempt: 1, AgentID: f.agents[0].ID, Hostname: f.agents[0].Hostname, Changed: time.Now()}}
		v := api.NewJobView(&j, "")
		f.more["/v1/jobs/"+j.RunID().String()] = v
		return v
	}
	own, other := view("alice", 1, job.Failed), view("bob", 2, job.Running)
	f.jobs = []api.JobView{own, other}
	f.more["/v1/jobs/train"] = own // the scheduler prefers the reader's job
	p := openTab(t, f.serve(t).URL+"/#/jobs?state=all")
	p.awaitTrue("document.querySelectorAll('tbody .badge').length === 2")
	links := evalJS[[]string](p, "[...document.querySelectorAll('tbody a[href^=\"#/jobs/\"]')].map((a) => a.getAttribute('href')).sort()")
	if !slices.Equal(links, []string{"#/jobs/train", "#/jobs/train%401"}) { // without a user the name means the job that has not ended
		t.Errorf("the rows lead to %q", links)
	}
	for _, s := range []struct{ address, badge, button, confirm, want string }{
		{"#/jobs/train", "FAILED", "Rerun", "Rerun job", "POST /v1/jobs/train%401/rerun {}"},
		{"#/jobs/train@2", "RUNNING", "Kill", "Kill job", "DELETE /v1/jobs/train%402"},
		{"#/jobs/train", "FAILED", "Rerun", "Rerun job", "POST /v1/jobs/train%401/rerun {}"},
	} {
		evalJS[bool](p, "(location.hash = '"+s.address+"'), true")
		p.awaitTrue("document.querySelector('.heading .badge')?.textContent === '" + s.badge + "'")
		p.clickButton(s.button)
		p.clickButton(s.confirm)
		p.awaitTrue("!document.querySelector('dialog')")
		if got := f.takeChanges(); !slices.Equal(got, []string{s.want}) {
			t.Errorf("%s on %s requests %q, want %q", s.button, s.address, got, s.want)
		}
	}
}
