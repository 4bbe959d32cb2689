package web_test

import (
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestJobEventsShowChanges checks on a real scheduler that the events of a job show what users did to it, with the state of the
// job, and that an open list shows a later change without a reload.
func TestJobEventsShowChanges(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	url, client := startScheduler(t, c)
	service := job.Spec{Name: "web", Tasks: 1, Service: &job.Service{}, Command: []string{"serve"}}
	if _, err := client.SubmitJob(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	awaitTask(t, client, "web", job.Running)
	if _, err := client.EditJob(t.Context(), "web", map[string]any{"priority": 5}); err != nil {
		t.Fatal(err)
	}
	p := openTab(t, url+"/#/jobs/web")
	p.awaitTrue("document.querySelector('ol.events')")
	evalJS[bool](p, "document.querySelector('ol.events').closest('details').open = true")
	rows := func(want string) {
		t.Helper()
		p.awaitTrue("[...document.querySelectorAll('ol.events li')].map((row) => row.children[1].textContent + ' ' + row.children[2].textContent)" +
			".filter((text) => !text.includes('web.0.')).join() === '" + want + "'")
	}
	const before = "RUNNING edited: priority 0 to 5,SUBMITTED submitted"
	rows(before)
	if err := client.RequeueJob(t.Context(), "web", api.RequeueRequest{Reason: "a bug", Hold: true}); err != nil {
		t.Fatal(err)
	}
	rows("KILLING queued again: a bug,RUNNING held: a bug," + before)
}
