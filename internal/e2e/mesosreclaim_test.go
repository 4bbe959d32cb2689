//go:build mesos

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

// TestMesosReclaimSurvivesKilledScheduler: a role borrows all GPUs, and another one reclaims the two that it deserves. The
// scheduler is killed after each step that it records. No task is lost, and two tasks are evicted, each once.
func TestMesosReclaimSurvivesKilledScheduler(t *testing.T) {
	m := startMesos(t, stockAgentFlags...) // four V100
	args := []string{"scheduler", "--master", "http://" + m.master, "--listen", "127.0.0.1:0", "--executor", buildReleased(t),
		"--journal", filepath.Join(t.TempDir(), "journal"), "--roles", writeJobFile(t, "roles.yaml", "guests: {weight: 1}\nprod: {deserved: V100=2}\n")}
	c := startDaemon(t, binary, args...)
	const needs = "gpus: 1\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\nkill_grace: 5s\n"
	c.mustRun("submit", writeJobFile(t, "borrow.yaml", "name: borrow\nrole: guests\ntasks: 4\n"+needs+
		"command: trap 'sleep 1; exit 0' TERM; while true; do sleep 0.1; done\n"))
	allRun := func(v *api.JobView) bool { return v.TaskStates[job.Running] == 4 }
	c.awaitJob("borrow", allRun)

	daemonTest := t // each scheduler runs beyond the subtest that starts it
	for i, step := range []struct {
		name    string
		reached func(borrow, claim *api.JobView) bool
	}{
		{"the victims are stopped", func(borrow, _ *api.JobView) bool { return borrow.TaskStates[job.Killing] > 0 }},
		{"a victim has ended", func(borrow, _ *api.JobView) bool { return borrow.TaskStates[job.Waiting] > 0 }},
		{"the claim is launched", func(_, claim *api.JobView) bool { return claim.TaskStates[job.Waiting] < 2 }},
		{"the claim runs", func(_, claim *api.JobView) bool { return claim.TaskStates[job.Running] > 0 }},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := c.awaitJob("borrow", allRun)
			claim := fmt.Sprintf("claim-%d", i)
			c.mustRun("submit", writeJobFile(t, "claim.yaml", "name: "+claim+"\nrole: prod\ntasks: 2\n"+needs+"command: sleep 1000\n"))
			awaitStep(t, c.api, claim, step.reached)
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-c.ended
			c = startDaemon(daemonTest, binary, args...)
			c.awaitJob(claim, func(v *api.JobView) bool { return v.TaskStates[job.Running] == 2 })
			c.awaitJob("borrow", func(v *api.JobView) bool { return v.TaskStates[job.Running] == 2 && v.TaskStates[job.Waiting] == 2 })
			c.mustRun("kill", claim)
			c.awaitJobEnd(claim)
			after := c.awaitJob("borrow", allRun)
			var again []int // how many attempts each task has more
			for n := range after.Tasks {
				again = append(again, after.Tasks[n].Attempt-before.Tasks[n].Attempt)
			}
			if slices.Sort(again); !slices.Equal(again, []int{0, 0, 1, 1}) {
				t.Errorf("tasks were started again %v times, want two of them, once: %+v", again, after.Tasks)
			}
		})
	}
}

// awaitStep waits until the borrowing job and the claiming one satisfy reached.
func awaitStep(t *testing.T, address, claimName string, reached func(borrow, claim *api.JobView) bool) {
	t.Helper()
	scheduler, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(waitTimeout); ; time.Sleep(5 * time.Millisecond) {
		borrow, err := scheduler.GetJob(t.Context(), "borrow")
		if err != nil {
			t.Fatal(err)
		}
		claim, err := scheduler.GetJob(t.Context(), claimName)
		if err != nil {
			t.Fatal(err)
		}
		if reached(&borrow, &claim) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("not reached: borrow %v, claim %v", borrow.TaskStates, claim.TaskStates)
		}
	}
}
