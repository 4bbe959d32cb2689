package shares

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"mesos-gpu/framework"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sim/replay"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// patienceJobs returns, for four GPUs, a job that declares an hour, behind one that fills the GPUs, and later short jobs that need
// twice the GPUs: without patience it would never start.
func patienceJobs() (jobs []replay.JobRecord) {
	add := func(name string, arrives, declared time.Duration, tasks int) {
		const runs = 2 * time.Second
		jobs = append(jobs, replay.JobRecord{ArrivesAt: arrives, RunTimes: replay.TaskRunTimes{runs}, Spec: job.Spec{
			Name: name, Role: "lab", Tasks: tasks, Request: gpu.Request{GPUs: 1}, CPUs: 0.1, MemMiB: 32, RunTime: declared,
			Containerizer: job.Mesos, Command: []string{"sleep", strconv.FormatFloat(runs.Seconds(), 'f', -1, 64)},
		}})
	}
	add("filler", 0, 2*time.Second, 4)
	add("patient", 100*time.Millisecond, time.Hour, 1)
	for n := range 20 {
		add(fmt.Sprintf("short-%d", n), time.Duration(n+1)*time.Second, 2*time.Second, 4)
	}
	return jobs
}

// TestPatienceHolds checks, on the embedded master and in the simulator, that shorter jobs overtake a job under "order: shortest" for
// its role's patience, and no longer.
func TestPatienceHolds(t *testing.T) {
	t.Parallel()
	if !isLong() {
		t.Skip("takes half a minute: MESOS_GPU_TEST_LONG=1 runs it")
	}
	const patience = 10 * time.Second
	c := shareCase{roles: fmt.Sprintf("lab: {order: shortest, patience: %s}\n", patience)}
	checks := 0
	check := func(where string, waited time.Duration) {
		t.Helper()
		checks++
		t.Logf("%s: started after %s", where, waited.Round(time.Millisecond))
		// Then a GPU is free within the time of a task, and offered within a second.
		if waited < patience || waited > patience+4*time.Second {
			t.Errorf("%s: started after %s, want %s to %s", where, waited, patience, patience+4*time.Second)
		}
	}
	address := startScheduler(t, &c, 1, 4)
	scheduler := newClient(t, address, "")
	begun := time.Now()
	for _, j := range patienceJobs() {
		time.Sleep(time.Until(begun.Add(j.ArrivesAt)))
		if _, err := scheduler.SubmitJob(t.Context(), j.Spec); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Until(begun.Add(patience + 8*time.Second)))
	for a, err := range scheduler.EachAccountedAttempt(t.Context(), api.AccountingQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if a.Job == "patient" {
			check("live", a.Launched.Sub(a.Queued))
		}
	}

	roles, err := framework.LoadRoles(writeFile(t, c.roles))
	if err != nil {
		t.Fatal(err)
	}
	_, err = replay.RunReplay(replay.ReplaySettings{
		Agents: []replay.ReplayAgent{{ID: "agent", Has: sched.Amount{CPUs: 64, MemMiB: 1 << 18}, GPUs: 4, Model: "V100"}},
		Sched:  sched.SchedulerSettings{Policy: sched.Policy{Policy: placement.Policy{Roles: roles}}},
		JobEnded: func(j *replay.JobRecord, started, _ time.Duration) {
			if j.Spec.Name == "patient" {
				check("simulated", started-j.ArrivesAt)
			}
		},
	}, slices.Values(patienceJobs()))
	if err != nil {
		t.Fatal(err)
	}
	if checks != 2 {
		t.Errorf("the job started in %d of 2 clusters", checks)
	}
}
