package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

// taskEvidence is the folder in which tasks record what they observed.
type taskEvidence struct {
	t      testing.TB
	dir    string
	binary string // also runs the tasks
}

func newTaskEvidence(t testing.TB, binary string) *taskEvidence {
	t.Helper()
	p := &taskEvidence{t: t, dir: t.TempDir(), binary: binary}
	if err := os.Mkdir(filepath.Join(p.dir, heldFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// spec returns the specification of a job with that many tasks, each with that many GPUs.
func (p *taskEvidence) spec(name string, gpus, tasks int) job.Spec {
	s := job.Spec{
		Name: name, Tasks: tasks, CPUs: 0.1, MemMiB: 256, Containerizer: job.Mesos, KillGrace: 20 * time.Second,
		Command: []string{p.binary, taskCommand, p.dir, dwells.String()},
	}
	s.Request.GPUs = gpus
	return s
}

// endlessSpec changes a specification so that the job runs until it is killed.
func (p *taskEvidence) endlessSpec(s job.Spec) job.Spec {
	s.Command = slices.Clone(s.Command)
	s.Command[len(s.Command)-1] = forEver
	return s
}

// checkAll compares the evidence with the results of the jobs.
func (p *taskEvidence) checkAll(c *crashCluster, in *client.Client, jobs map[string]api.JobView) {
	p.t.Helper()
	p.checkJobs(in, jobs)
	p.checkLines(jobs)
	if text, err := os.ReadFile(filepath.Join(p.dir, conflictsFile)); !errors.Is(err, os.ErrNotExist) {
		p.t.Errorf("two tasks held one device: %s%v", text, err)
	}
	p.checkFree(c, in)
	p.checkUnlocked()
}

// expectedState returns the final state of a job: KILLED for an endless one, else FINISHED.
func expectedState(j *job.Job) job.State {
	if j.Spec.Command[len(j.Spec.Command)-1] == forEver {
		return job.Killed
	}
	return job.Finished
}

// checkJobs checks that the API lists exactly the submitted jobs, in the final states that
// the users saw.
func (p *taskEvidence) checkJobs(in *client.Client, jobs map[string]api.JobView) {
	p.t.Helper()
	listed, err := in.ListJobs(withTimeout(p.t))
	if err != nil {
		p.t.Error(err)
	}
	if len(listed) != len(jobs) {
		p.t.Errorf("the API lists %d jobs, people submitted %d", len(listed), len(jobs))
	}
	for i := range listed {
		got := &listed[i]
		told, ok := jobs[got.Spec.Name]
		if want := expectedState(&got.Job); !ok || got.State != want || told.State != want {
			p.t.Errorf("job %s is %s, the user saw %s (%t), want %s: %+v", got.Spec.Name, got.State, told.State, ok, want, got.Tasks)
		}
	}
}

// checkLines checks that each task of each job has run exactly once, with its devices. A
// task of a killed job may not have started.
func (p *taskEvidence) checkLines(jobs map[string]api.JobView) {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, linesFile))
	if err != nil {
		p.t.Error(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			p.t.Errorf("line %q, want a job, an index and devices", line)
			continue
		}
		runs[fields[0]+" "+fields[1]]++
		if got, want := len(strings.Split(fields[2], ",")), jobs[fields[0]].Spec.Request.GPUs; got != want {
			p.t.Errorf("task %s of job %s saw %d GPUs, want %d: %s", fields[1], fields[0], got, want, fields[2])
		}
	}
	for name, view := range jobs {
		for n := range view.Spec.Tasks {
			key := fmt.Sprint(name, " ", n)
			if got := runs[key]; got > 1 || got == 0 && expectedState(&view.Job) == job.Finished {
				p.t.Errorf("task %s ran %d times", key, got)
			}
			delete(runs, key)
		}
	}
	if len(runs) > 0 {
		p.t.Errorf("tasks of unknown jobs ran: %v", runs)
	}
}

// checkUnlocked checks that devices were used and that no process still locks one. How many were used depends on how
// fast jobs end; those of two GPUs need two.
func (p *taskEvidence) checkUnlocked() {
	p.t.Helper()
	used, err := os.ReadDir(filepath.Join(p.dir, heldFolder))
	if err != nil || len(used) < 2 {
		p.t.Errorf("%d of %d devices were used, want 2 or more (%v)", len(used), agents*gpusPerAgent, err)
	}
	for _, device := range used {
		f, err := lockDevice(p.dir, device.Name())
		if err != nil {
			p.t.Errorf("after the last job: %v", err)
		}
		f.Close()
	}
}

// checkFree checks that no GPU is allocated once the executors have exited, and that no attempt holds one. A launch that
// a crash lost holds its GPUs for two minutes after the last start of a scheduler: it might still arrive at its agent.
func (p *taskEvidence) checkFree(c *crashCluster, in *client.Client) {
	p.t.Helper()
	pollUntilOK(p.t, "all GPUs to be free", func() error {
		list, err := in.ListAgents(withTimeout(p.t))
		if err != nil {
			return err
		}
		free := 0
		for _, a := range list {
			free += a.GPUsFree
		}
		if want := agents * gpusPerAgent; free != want {
			return fmt.Errorf("%d GPUs are free, want %d", free, want)
		}
		return nil
	})
	pollUntilOK(p.t, "all GPUs to be without a task", func() error {
		gpus, err := in.ListGPUs(withTimeout(p.t))
		if err != nil {
			return err
		}
		if len(gpus) != agents*gpusPerAgent {
			p.t.Fatalf("the API lists %d GPUs", len(gpus))
		}
		for _, g := range gpus {
			if g.Task != "" {
				return fmt.Errorf("the API has %s held by %s", g.UUID, g.Task)
			}
		}
		return nil
	})
	books, err := c.callMaster(operator.Call_GET_TASKS)
	if err != nil {
		p.t.Error(err)
	} else if held := tasksByDevice(p.t, books.GetTasks.Tasks); len(held) > 0 {
		p.t.Errorf("the master's books have GPUs held: %v", held)
	}
}

// pollUntilOK polls until ask returns no error. It is for conditions without an event.
func pollUntilOK(t testing.TB, what string, ask func() error) {
	t.Helper()
	limit := time.After(waitTimeout)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("waited %s for %s: %v", waitTimeout, what, err)
		}
	}
}

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}
