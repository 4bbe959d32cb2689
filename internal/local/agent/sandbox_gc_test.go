package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/testing/testneeds"
)

func TestAllowedAgeShrinksAsTheDiskFills(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for used, want := range map[float64]time.Duration{0: week * 9 / 10, 0.4: week / 2, 0.9: 0, 1: 0} {
		if got := allowedAge(week, used); (got - want).Abs() > time.Second {
			t.Errorf("%.0f %% used: %s, want %s", 100*used, got, want)
		}
	}
}

// TestSandboxesOfEndedExecutorsAreRemoved checks that age and disk use decide, and that the
// sandbox of a running executor stays on a full disk.
func TestSandboxesOfEndedExecutorsAreRemoved(t *testing.T) {
	used := 0.4
	r := newRig(t, false, func(c *AgentConfig) {
		c.KeepSandboxes, c.collectInterval = 10*time.Hour, time.Hour
		c.diskUse = func(string) (float64, error) { return used, nil }
	})
	r.run(r.custom("ended"), newTask("t1", "exit"))
	r.master.awaitExit(t, "ended")
	r.run(r.custom("running"), newTask("t2", "block"))
	r.master.awaitStates(t, "t2", "RUNNING")
	collect := func(at time.Time) {
		t.Helper()
		if err := r.agent.collectOnce(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	exists := func(executor string) bool {
		_, err := os.Stat(filepath.Dir(filepath.Dir(r.sandbox(executor))))
		return err == nil
	}
	collect(time.Now().Add(4 * time.Hour))
	if !exists("ended") {
		t.Error("a sandbox is removed before half of the time on a disk that is 40 % full")
	}
	collect(time.Now().Add(6 * time.Hour))
	if exists("ended") || !exists("running") {
		t.Errorf("after that: the ended executor has a folder: %t, the running one: %t", exists("ended"), exists("running"))
	}
	used = 0.95
	collect(time.Now().Add(time.Minute))
	if !exists("running") {
		t.Error("the sandbox of a running executor is removed")
	}
	r.run(r.custom("running"), newTask("t3", "exit"))
	r.master.awaitExit(t, "running")
	collect(time.Now().Add(time.Minute))
	if exists("running") {
		t.Error("the sandbox of an ended executor is kept on a full disk")
	}
}

// The age of a sandbox counts from the end of its executor, which may have run for long.
func TestAgeOfSandboxCountsFromTheEnd(t *testing.T) {
	r := newRig(t, false, func(c *AgentConfig) { c.diskUse = func(string) (float64, error) { return 0, nil } })
	r.run(r.custom("e"), newTask("t", "block"))
	r.master.awaitStates(t, "t", "RUNNING")
	sandbox, err := filepath.EvalSymlinks(r.sandbox("e"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(sandbox, time.Time{}, time.Now().Add(-30*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	r.run(r.custom("e"), newTask("t2", "exit"))
	r.master.awaitExit(t, "e")
	if err := r.agent.collectOnce(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sandbox); err != nil {
		t.Errorf("the sandbox of an executor that has just ended: %v", err)
	}
}

// TestFullDiskIsNoFailureOfTasks checks that a task which the agent cannot start for lack of disk
// space is lost, not failed, that the message names the folder, and that later tasks start.
func TestFullDiskIsNoFailureOfTasks(t *testing.T) {
	dir := testneeds.MountSmallDisk(t, 4<<20)
	r := newRig(t, false, func(c *AgentConfig) { c.WorkDir = filepath.Join(dir, "agent") })
	free := testneeds.FillDisk(t, dir)
	r.run(r.custom("e1"), newTask("t1", "exit"))
	r.master.awaitExit(t, "e1")
	status := r.master.awaitStates(t, "t1", "LOST")
	if status.GetReason() != mesos.REASON_CONTAINER_LAUNCH_FAILED || !strings.Contains(status.GetMessage(), filepath.Join(dir, "agent")+" is full") {
		t.Errorf("got %s, %q", status.GetReason(), status.GetMessage())
	}
	free()
	r.run(r.custom("e2"), newTask("t2", "exit"))
	if status := r.master.awaitStates(t, "t2", "FAILED"); !strings.Contains(status.GetMessage(), "exited with status 3") {
		t.Errorf("a task on a disk with room: %q", status.GetMessage())
	}
	if err := r.stop(); err != nil { // before the disk is unmounted
		t.Error(err)
	}
}
