package simulate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// phillyTrace writes two virtual clusters of one agent each, and jobs of three.
func phillyTrace(t *testing.T) (agents, tasks string) {
	t.Helper()
	dir := t.TempDir()
	agents, tasks = filepath.Join(dir, "vc.csv"), filepath.Join(dir, "jobs.csv")
	writeText(t, agents, "vc,node num\nx,1\ny,1\n")
	writeText(t, tasks, `timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:40,60.0,8,480.0,x
2017-10-09 07:01:30,1000.0,8,8000.0,x
2017-10-09 07:01:50,60.0,8,480.0,y
2017-10-09 07:02:00,60.0,1,60.0,unknown
2017-10-09 07:02:00,soon,1,60.0,x
`)
	return agents, tasks
}

func runTimed(t *testing.T, agents, tasks string, more ...string) replayReport {
	t.Helper()
	out, stderr, code := runCommandString(append([]string{"simulate", "--arrival", "timed", "--policy", "binpack", "--agents", agents, "--tasks", tasks, "--json"},
		more...)...)
	if code != 0 {
		t.Fatalf("status %d: %s", code, stderr)
	}
	var got replayReport
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return got
}

// TestTimedClusters checks two clusters: with their own agents, the second job of x waits for
// the first; pooled, it gets the agent of y, and y's job waits.
func TestTimedClusters(t *testing.T) {
	agents, tasks := phillyTrace(t)
	apart := runTimed(t, agents, tasks, "--clusters", "own")
	if apart.Jobs != 3 || apart.LeftOut != 1 || apart.GPUs != 16 || len(apart.Roles) != 2 {
		t.Errorf("got %d jobs, %d left out, %d GPUs, %d roles", apart.Jobs, apart.LeftOut, apart.GPUs, len(apart.Roles))
	}
	if w := apart.Roles["x"].Wait.Max; w < 990 || w > 1000 {
		t.Errorf("the second job of x waits %g s, the first runs 990 s more", w)
	}
	if w := apart.Roles["y"].Wait.Max; w > 1 {
		t.Errorf("y has an agent of its own, and its job waits %g s", w)
	}
	pool := runTimed(t, agents, tasks)
	if w := pool.Wait.Max; w < 50 || w > 52 {
		t.Errorf("pooled, the last job waits %g s, the second ends after 50", w)
	}
	if pool.BoundMean > pool.Completion.Mean || pool.BoundMean < 300 {
		t.Errorf("bound %g s, mean completion %g s", pool.BoundMean, pool.Completion.Mean)
	}
}

// TestTimedHelios replays the example in the columns of Helios: each virtual cluster is a role.
func TestTimedHelios(t *testing.T) {
	agents := filepath.Join(t.TempDir(), "vc.csv")
	writeText(t, agents, "vc,node num\nvcA,2\nvcB,1\n")
	tasks := "../../../framework/sim/replay/testdata/helios.csv"
	got := runTimed(t, agents, tasks, "--clusters", "own")
	if got.Jobs != 7 || got.LeftOut != 1 || got.GPUs != 24 || len(got.Roles) != 2 || got.Never != 0 {
		t.Errorf("got %d jobs, %d left out, %d GPUs, %d roles, %d never started", got.Jobs, got.LeftOut, got.GPUs, len(got.Roles), got.Never)
	}
	if w := got.Roles["vcA"].Wait.Max; w < 3500 || w > 3601 {
		t.Errorf("a gang of both agents runs for an hour, and the job after it waits %g s", w)
	}
	if _, stderr, code := runCommandString("simulate", "--agents", agents, "--tasks", tasks); code == 0 ||
		!strings.Contains(stderr, "is a record of Helios: replay it with --arrival timed") {
		t.Errorf("without a clock: status %d, %s", code, stderr)
	}
}

// TestTimedAlibabaTraces replays the examples in the columns of PAI and of DLRM services.
func TestTimedAlibabaTraces(t *testing.T) {
	const dir = "../../../framework/sim/replay/testdata/"
	agents := filepath.Join(t.TempDir(), "agents.csv")
	writeText(t, agents, "sn,cpu_milli,memory_mib,gpu,model\na,96000,524288,8,V100\nb,96000,524288,8,V100\n")
	pai := runTimed(t, agents, dir+"pai_task_table.csv", "--jobs", dir+"pai_job_table.csv")
	if pai.Jobs != 4 || pai.LeftOut != 2 || pai.GPUs != 16 || pai.Wait.Max < 889 || pai.Wait.Max > 891 {
		t.Errorf("PAI: %d jobs, %d left out, %d GPUs, longest wait %g s: the gang takes all GPUs and waits for the first job to end, 890 s",
			pai.Jobs, pai.LeftOut, pai.GPUs, pai.Wait.Max)
	}
	dlrm := runTimed(t, agents, dir+"dlrm.csv")
	if dlrm.Jobs != 6 || dlrm.Wait.Max < 669 || dlrm.Wait.Max > 671 {
		t.Errorf("DLRM: %d jobs, longest wait %g s: each agent has one card, so the second of app_1 waits for the first to end, 670 s", dlrm.Jobs, dlrm.Wait.Max)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--tasks", dir + "dlrm.csv"}, "is a record of DLRM services: replay it with --arrival timed"},
		{[]string{"--tasks", dir + "pai_task_table.csv"}, "is a record of PAI: replay it with --arrival timed"},
		{[]string{"--arrival", "timed", "--tasks", dir + "dlrm.csv", "--jobs", dir + "pai_job_table.csv"}, "--jobs is for a record of PAI"},
	} {
		if _, stderr, code := runCommandString(append([]string{"simulate", "--agents", agents}, c.args...)...); code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %s", c.args, code, stderr)
		}
	}
}

// TestTimedRoles: settings of a roles file apply to the roles of a record, those of the roles above included.
func TestTimedRoles(t *testing.T) {
	agents, tasks := phillyTrace(t)
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	writeText(t, roles, "x: {half_life: 1h, user: {running_jobs: 1, waiting_jobs: 1}, users: {other: {waiting_jobs: 1}}, waiting_jobs: 1}\n")
	limited := runTimed(t, agents, tasks, "--clusters", "shared", "--roles", roles)
	if x, y := limited.Roles["x"].Wait.Max, limited.Roles["y"].Wait.Max; limited.Jobs != 3 || x < 990 || x > 1001 || y > 2 {
		t.Errorf("%d jobs: the second job of x waits %g s for its user's first, which runs 990 s more; y waits %g s", limited.Jobs, x, y)
	}
	if free := runTimed(t, agents, tasks, "--clusters", "shared"); free.Roles["x"].Wait.Max > 100 {
		t.Errorf("without the file x waits %g s", free.Roles["x"].Wait.Max)
	}
	f := timedFlags{rolesFile: roles}
	writeText(t, roles, "lab: {quota: \"*=4\"}\nprod: {}\nlab/x: {weight: 2}\n")
	if err := f.loadRoles(); err != nil {
		t.Fatal(err)
	}
	if all := f.withRolesAbove([]queue.Role{f.newRole("lab/x"), f.newRole("other")}); len(all) != 3 || all[0].Weight != 2 ||
		all[2].Name != "lab" || all[2].Quota["*"] != 4 {
		t.Errorf("roles %+v", all)
	}
	if _, stderr, code := runCommandString("simulate", "--arrival", "timed", "--agents", agents, "--tasks", tasks, "--roles",
		agents); code == 0 || !strings.Contains(stderr, agents) {
		t.Errorf("a file without roles: status %d, %s", code, stderr)
	}
}

func TestTimedTable(t *testing.T) {
	agents, tasks := phillyTrace(t)
	out, stderr, code := runCommandString("simulate", "--arrival", "timed", "--policy", "binpack", "--agents", agents, "--tasks",
		tasks, "--clusters", "shared", "--order", "shortest", "--run-times", "exact", "--preempt-for", "2m")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{"2 agents, 16 GPUs, 3 jobs", "1 left out", "role x", "role y", "8 GPUs", "P100"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(stderr, `jobs.csv:6: duration "soon": want seconds`) {
		t.Errorf("the bad row is not told: %s", stderr)
	}
}

// TestTimedPolicies checks that several policies get one row each.
func TestTimedPolicies(t *testing.T) {
	agents, tasks := phillyTrace(t)
	plot := filepath.Join(t.TempDir(), "waits.svg")
	out, stderr, code := runCommandString("simulate", "--arrival", "timed", "--policy", "binpack,headroom,spread", "--agents",
		agents, "--tasks", tasks, "--plot", plot)
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{"POLICY", "\nbinpack ", "\nheadroom ", "\nspread "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	text, err := os.ReadFile(plot)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"binpack, mean", "waited at most", ">10 s<", ">100 %<"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in the plot", want)
		}
	}
	if lines := strings.Count(string(text), "<polyline"); lines != 3 {
		t.Errorf("the plot has %d lines, want 3", lines)
	}
}

// TestSimulateSuggestsTimedArrival checks the hint for files or flags of timed arrivals.
func TestSimulateSuggestsTimedArrival(t *testing.T) {
	agents, csv := smallTrace(t)
	_, philly := phillyTrace(t)
	jobs := filepath.Join(t.TempDir(), "train.yaml")
	writeText(t, jobs, "name: train\ngpus: 1\ncommand: \"true\"\nrun_time: 1h\n")
	for _, c := range []struct {
		line []string
		want string
		code int
	}{
		{[]string{"--tasks", philly}, "is a record of Philly: replay it with --arrival timed", 1},
		{[]string{"--tasks", jobs}, "is a job file: replay it with --arrival timed", 1},
		{[]string{"--tasks", csv, "--order", "shortest"}, "--order is for --arrival timed", 2},
		{[]string{"--tasks", csv, "--strict"}, "--strict is for --arrival timed", 2},
	} {
		_, stderr, code := runCommandString(append([]string{"simulate", "--agents", agents}, c.line...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %q, want %d and %q", c.line, code, stderr, c.code, c.want)
		}
	}
}

// TestTimedOpenb replays a trace with arrival and end times.
func TestTimedOpenb(t *testing.T) {
	agents, tasks := smallTrace(t)
	writeText(t, tasks,
		"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\na,1000,1024,4,1000,T4,5,105\nb,1000,1024,1,500,T4,15,115\nc,1000,1024,4,1000,,15,25\n")
	r := runTimed(t, agents, tasks)
	if r.Jobs != 3 || r.Wait.Max < 89 || r.Wait.Max > 91 || r.Types["T4"].Allocation <= r.Types["A10"].Allocation {
		t.Errorf("b waits until a leaves, 90 s: got %+v, types %+v %+v", r.Wait, r.Types["T4"], r.Types["A10"])
	}
}

// TestTimedJournal replays what a scheduler has recorded.
func TestTimedJournal(t *testing.T) {
	agents, _ := smallTrace(t)
	path := filepath.Join(t.TempDir(), "scheduler.db")
	j, err := journal.OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Unix(1_700_000_000, 0)
	var change journal.Change
	for i, name := range []string{"one", "two", "running"} {
		s := job.Spec{Name: name, Role: "r", Request: gpu.Request{GPUs: 4, Types: gpu.TypeSelector{Include: []string{"T4"}}}, Command: []string{"true"}}
		s.SetDefaults()
		task := job.Task{ID: name + ".0.1", Job: name, State: job.Finished, Started: begin.Add(time.Minute), Ended: begin.Add(2 * time.Minute)}
		if name == "running" {
			task.State, task.Ended = job.Running, time.Time{}
		}
		change.Jobs = append(change.Jobs, &job.Job{Spec: new(s), Submitted: begin.Add(time.Duration(i) * time.Second), Tasks: []job.Task{task}})
		change.Tasks = append(change.Tasks, task)
	}
	if err := j.Commit(context.Background(), change); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r := runTimed(t, agents, path)
	if r.Jobs != 2 || r.LeftOut != 1 || r.Roles["r"].Jobs != 2 || r.Wait.Max < 58 || r.Wait.Max > 60 {
		t.Errorf("got %d jobs, %d left out, wait %+v", r.Jobs, r.LeftOut, r.Wait)
	}
}

func TestTimedJobFile(t *testing.T) {
	agents, _ := smallTrace(t)
	path := filepath.Join(t.TempDir(), "job.yaml")
	writeText(t, path, "name: train\ntasks: 3\ngpus: 4\nrun_time: 10m\ncommand: [sleep, 600]\n")
	if r := runTimed(t, agents, path); r.Jobs != 1 || r.Completion.Max < 1200 || r.Completion.Max > 1202 {
		t.Errorf("3 tasks of 4 GPUs on 8 take 20 minutes: got %+v", r.Completion)
	}
	writeText(t, path, "name: train\ngpus: 4\ncommand: [sleep, 600]\n")
	if _, stderr, code := runCommandString("simulate", "--arrival", "timed", "--policy", "binpack", "--agents", agents,
		"--tasks", path); code == 0 || !strings.Contains(stderr, "neither run_time nor timeout") {
		t.Errorf("status %d: %s", code, stderr)
	}
}

// TestTimedIsCancelled: an interrupt ends a replay.
func TestTimedIsCancelled(t *testing.T) {
	agents, tasks := phillyTrace(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	out, stderr, code := runCommand(ctx, "simulate", "--arrival", "timed", "--policy", "binpack", "--agents", agents, "--tasks", tasks)
	if code == 0 || !strings.Contains(stderr, "context canceled") || out != "" {
		t.Errorf("status %d, %q, printed %q", code, stderr, out)
	}
}

func TestInvalidTimedFlags(t *testing.T) {
	agents, tasks := phillyTrace(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--order", "lifo"}, `--order "lifo" is not one of fifo, shortest`},
		{[]string{"--run-times", "guess"}, `--run-times "guess" is not one of`},
		{[]string{"--clusters", "all"}, `--clusters "all" is not one of`},
		{[]string{"--policy", "fgd,random"}, `policy "random" is not one of`},
		{[]string{"--patience", "-1h"}, "not below zero"},
		{[]string{"--seeds", "1-3"}, "one --seed"},
		{[]string{"--queue", "5"}, "--arrival timed takes no --queue"},
	} {
		if _, stderr, code := runCommandString(append([]string{"simulate", "--arrival", "timed", "--policy", "binpack", "--agents", agents, "--tasks", tasks},
			c.args...)...); code != 2 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %s, want %q", c.args, code, stderr, c.want)
		}
	}
}

// TestTimedFairness: one agent each. x runs its second job after its first in its own share, 1050 s after it arrives, and at once
// on the agent of y if that is shared: 60/1050. y's job then waits 50 of the 60 s of x's: 110/60.
func TestTimedFairness(t *testing.T) {
	agents, tasks := phillyTrace(t)
	got := runTimed(t, agents, tasks, "--clusters", "shared", "--fairness")
	x, y := got.Roles["x"].FinishTimeFairness, got.Roles["y"].FinishTimeFairness
	if want := 60. / 1050; x.P50 < want*0.95 || x.P50 > want*1.05 || x.Max < 0.99 || x.Max > 1.01 {
		t.Errorf("x: %+v, want %g for its second job and 1 for its first", x, want)
	}
	if want := 110. / 60; y.Max < want*0.95 || y.Max > want*1.05 || y.Mean != y.Max && y.Mean-y.Max > 1e-6 || got.FinishTimeFairness.Max != y.Max {
		t.Errorf("y: %+v, want %g; all %+v", y, want, got.FinishTimeFairness)
	}
	if plain := runTimed(t, agents, tasks, "--clusters", "shared"); plain.FinishTimeFairness.Max != 0 {
		t.Errorf("without the flag: %+v", plain.FinishTimeFairness)
	}
	if _, stderr, code := runCommandString("simulate", "--arrival", "timed", "--agents", agents, "--tasks", tasks, "--fairness"); code == 0 ||
		!strings.Contains(stderr, "--fairness needs --clusters shared") {
		t.Errorf("pooled: status %d, %s", code, stderr)
	}
	plot := filepath.Join(t.TempDir(), "fairness.svg")
	out, _, _ := runCommandString("simulate", "--arrival", "timed", "--policy", "binpack", "--agents", agents, "--tasks", tasks,
		"--clusters", "shared", "--fairness", "--plot", plot)
	if !strings.Contains(out, "role y: mean 1.83, median 1.83, 99th percentile 1.83, worst 1.83; 1 of 1 jobs above 1.5") {
		t.Errorf("no fairness of y in\n%s", out)
	}
	if text, err := os.ReadFile(plot); err != nil || !strings.Contains(string(text), "binpack, worst 1.83") {
		t.Errorf("plot %s: %v", text, err)
	}
}
