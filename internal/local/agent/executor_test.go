package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/minimesos/updates"
	api "mesos-gpu/internal/resourceprovider"
)

// An executor of another project runs a task, from its launch to its end.
func TestForeignExecutor(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		r.run(r.custom("ex", "MINE=own", "OPERATORS=overridden"), newTask("t1", "env | sort > environment; pwd; echo from-task"))
		last := r.master.awaitStates(t, "t1", "RUNNING FINISHED")
		if got := last.GetMessage(); got != "foreign-executor" {
			t.Errorf("the executor was started with %q", got)
		}
		if last.GetSource() != mesos.SOURCE_EXECUTOR || len(last.UUID) != 16 || last.AgentID.GetValue() != "agent-1" ||
			last.ContainerStatus.GetContainerID().GetValue() == "" || last.ContainerStatus.GetExecutorPID() == 0 || last.GetTimestamp() == 0 {
			t.Errorf("status is not complete: %v", last)
		}
		r.wantEnvironment(last.ContainerStatus.ContainerID.Value)
		r.shutdown("ex")
		if x := r.master.awaitExit(t, "ex"); x.status != 0 || x.after < 2 {
			t.Errorf("exit %+v", x)
		}
	})
}

func (r *rig) shutdown(executor string) {
	r.master.agent.ShutdownExecutor(mesos.FrameworkID{Value: "fw"}, mesos.ExecutorID{Value: executor})
}

// wantEnvironment checks all variables of the executor and its working directory.
func (r *rig) wantEnvironment(id string) {
	r.t.Helper()
	dir := filepath.Join(filepath.Dir(r.sandbox("ex")), id)
	want := []string{
		"MESOS_AGENT_ENDPOINT=" + r.agent.cfg.Addr, "MESOS_CHECKPOINT=0", "MESOS_DIRECTORY=" + dir, "MESOS_EXECUTOR_ID=ex",
		"MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD=2secs", "MESOS_FRAMEWORK_ID=fw", "MESOS_HTTP_COMMAND_EXECUTOR=0", "MESOS_SANDBOX=" + dir,
		"MESOS_SLAVE_ID=agent-1", "MESOS_SLAVE_PID=slave(1)@" + r.agent.cfg.Addr, "MINE=own", "OPERATORS=overridden",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PWD=" + dir,
	}
	got := strings.Split(strings.TrimSpace(r.file("ex", "environment")), "\n")
	got = slices.DeleteFunc(got, func(v string) bool {
		return strings.HasPrefix(v, "OLDPWD") || strings.HasPrefix(v, "_=") || strings.HasPrefix(v, "SHLVL=")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("environment (-want +got):\n%s", diff)
	}
	if got := r.file("ex", "stdout"); !strings.Contains(got, dir+"\nfrom-task\n") {
		r.t.Errorf("stdout %q", got)
	}
}

func TestSuppliedExecutor(t *testing.T) {
	r := newRig(t, false, nil)
	// A command task's executor comes without command and type.
	r.run(mesos.ExecutorInfo{ExecutorID: mesos.ExecutorID{Value: "command"}}, newTask("command", "true"))
	if last := r.master.awaitStates(t, "command", "RUNNING FINISHED"); last.GetMessage() != "executor" {
		t.Errorf("a command task's executor was started with %q", last.GetMessage())
	}
}

func TestTasksOfOneExecutorAreKilledSeparately(t *testing.T) {
	r := newRig(t, false, nil)
	e := r.custom("ex")
	r.run(e, newTask("t1", "block"))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.run(e, newTask("t2", "block"))
	r.master.awaitStates(t, "t2", "RUNNING")
	r.kill("t1")
	r.master.awaitStates(t, "t1", "RUNNING KILLED")
	r.kill("t1")
	last := r.master.awaitStates(t, "t1", "RUNNING KILLED LOST") // acknowledged: forgotten
	if last.GetReason() != mesos.REASON_EXECUTOR_TERMINATED || last.GetSource() != mesos.SOURCE_AGENT || len(last.UUID) != 16 {
		t.Errorf("status %v", last)
	}
	r.kill("t2")
	r.master.awaitStates(t, "t2", "RUNNING KILLED")
}

func TestKillOfUnknownTask(t *testing.T) {
	r := newRig(t, false, nil)
	r.kill("unknown") // of a framework without executors: ignored
	r.master.agent.Run(aFramework(mesos.FrameworkInfo_Capability_PARTITION_AWARE), r.custom("ex"), newTask("t1", "block"))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.kill("other")
	r.master.awaitStates(t, "other", "DROPPED")
	if states := r.master.states("unknown"); states != "" {
		t.Errorf("a task of a framework without executors is %s", states)
	}
}

// TestReconcileTasks checks that the agent reports the tasks that it does not have,
// and no others: not one with an unacknowledged terminal status.
func TestReconcileTasks(t *testing.T) {
	r := newRig(t, false, nil)
	framework := aFramework(mesos.FrameworkInfo_Capability_PARTITION_AWARE)
	r.run(r.custom("runs"), newTask("runs", "block"))
	r.master.awaitStates(t, "runs", "RUNNING")
	r.run(r.custom("over"), newTask("over", "true"))
	r.master.awaitStates(t, "over", "RUNNING FINISHED")
	r.master.agent.ShutdownExecutor(*framework.ID, mesos.ExecutorID{Value: "over"})
	r.master.awaitExit(t, "over")
	r.master.locked(func() { r.master.mute = true })
	r.run(r.custom("ends"), newTask("ends", "true"))
	r.master.awaitStates(t, "ends", "RUNNING")
	var all []mesos.TaskID
	for _, id := range []string{"runs", "ends", "over", "lost"} {
		all = append(all, mesos.TaskID{Value: id})
	}
	r.master.agent.ReconcileTasks(framework, all)
	r.master.awaitStates(t, "over", "RUNNING FINISHED DROPPED")
	last := r.master.awaitStates(t, "lost", "DROPPED")
	if last.GetReason() != mesos.REASON_RECONCILIATION || last.GetSource() != mesos.SOURCE_AGENT || len(last.UUID) != 16 {
		t.Errorf("status %v", last)
	}
	if runs, ends := r.master.states("runs"), r.master.states("ends"); runs != "RUNNING" || ends != "RUNNING" {
		t.Errorf("tasks that the agent has are %s and %s", runs, ends)
	}
}

// TestMessage checks that an executor receives a message, and that one to an
// executor that has not subscribed, or to none, is dropped.
func TestMessage(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("mute", "FOREIGN=mute"), newTask("mute", ""))
	r.run(r.custom("ex"), newTask("t1", "block"))
	r.master.awaitStates(t, "t1", "RUNNING")
	for _, id := range []string{"mute", "none", "ex"} {
		r.master.agent.Message(mesos.FrameworkID{Value: "fw"}, mesos.ExecutorID{Value: id}, []byte("text"))
	}
	r.kill("t1") // arrives after the message
	r.master.awaitStates(t, "t1", "RUNNING KILLED")
	if got := r.file("ex", "stdout"); !strings.Contains(got, "event MESSAGE") {
		t.Errorf("the executor received no message:\n%s", got)
	}
}

// TestLaunchForAnotherAgent checks that a launch for an earlier agent at the same
// address does not start.
func TestLaunchForAnotherAgent(t *testing.T) {
	r := newRig(t, false, nil)
	other := newTask("other", "block")
	other.AgentID.Value = "agent-0"
	r.run(r.custom("other"), other)
	r.run(r.custom("own"), newTask("own", "block"))
	r.master.awaitStates(t, "own", "RUNNING")
	if _, err := os.Stat(r.sandbox("other")); !os.IsNotExist(err) {
		t.Errorf("the other agent's task was started: %v", err)
	}
}

func TestKillBeforeDelivery(t *testing.T) {
	r := newRig(t, false, nil)
	e := r.custom("ex", "FOREIGN=mute")
	r.run(e, newTask("t1", ""), newTask("t2", ""))
	r.kill("t1")
	r.kill("t2")
	for _, id := range []string{"t1", "t2"} {
		if last := r.master.awaitStates(t, id, "KILLED"); last.GetReason() != mesos.REASON_TASK_KILLED_DURING_LAUNCH {
			t.Errorf("%s: %v", id, last)
		}
	}
	if x := r.master.awaitExit(t, "ex"); x.after != 2 {
		t.Errorf("exit %+v before both statuses", x)
	}
}

func TestExecutorExitFailsItsTasks(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		r.run(r.custom("ex"), newTask("t1", "block"), newTask("t2", "exit"))
		for id, states := range map[string]string{"t1": "RUNNING FAILED", "t2": "FAILED"} {
			last := r.master.awaitStates(t, id, states)
			if last.GetReason() != mesos.REASON_EXECUTOR_TERMINATED || !strings.Contains(last.GetMessage(), "exited with status 3") {
				t.Errorf("%s: %v", id, last)
			}
		}
		x := r.master.awaitExit(t, "ex")
		if ws := syscall.WaitStatus(x.status); ws.ExitStatus() != 3 || x.after != 3 {
			t.Errorf("exit %+v", x)
		}
		if dir, err := os.Readlink(r.sandbox("ex")); err != nil || filepath.Base(dir) == "" {
			t.Errorf("latest: %q, %v", dir, err)
		}
		// Another run may reuse the id.
		r.run(r.custom("ex"), newTask("t3", "true"))
		r.master.awaitStates(t, "t3", "RUNNING FINISHED")
	})
}

func TestLaunchFailures(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		absent, uris, boxed, networked, noValue := r.custom("absent"), r.custom("uris"), r.custom("boxed"), r.custom("networked"), r.custom("no-value")
		none := "/no/such/executor"
		absent.Command.Value, noValue.Command.Value = &none, nil
		uris.Command.URIs = []mesos.CommandInfo_URI{{Value: "http://example.org"}}
		boxed.Container = &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum()}
		front := "front"
		networked.Container = &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), NetworkInfos: []mesos.NetworkInfo{{Name: &front}}}
		for want, e := range map[string]mesos.ExecutorInfo{
			none:                   absent,
			"no name of a file":    uris,
			"container of its own": boxed,
			`joins the network "front": this embedded agent has no CNI networks`: networked,
			"no value": noValue,
		} {
			id := e.ExecutorID.Value
			r.run(e, newTask("task-"+id, ""))
			last := r.master.awaitStates(t, "task-"+id, "FAILED")
			if last.GetReason() != mesos.REASON_CONTAINER_LAUNCH_FAILED || !strings.Contains(last.GetMessage(), want) {
				t.Errorf("%s: %v", id, last)
			}
			if x := r.master.awaitExit(t, id); x.status != -1 {
				t.Errorf("%s: exit %+v", id, x)
			}
		}
	})
}

func TestRegistrationTimeout(t *testing.T) {
	r := newRig(t, false, func(c *AgentConfig) { c.registrationTimeout = 100 * time.Millisecond })
	r.run(r.custom("ex", "FOREIGN=mute"), newTask("t1", ""))
	last := r.master.awaitStates(t, "t1", "FAILED")
	if last.GetReason() != mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT || !strings.Contains(last.GetMessage(), "100ms") {
		t.Errorf("status %v", last)
	}
}

// The registration timeout also ends a launch that hangs, here on a resource
// provider.
func TestTimeoutDuringLaunch(t *testing.T) {
	r := newRig(t, false, func(c *AgentConfig) { c.registrationTimeout, c.publishTimeout = 100*time.Millisecond, time.Hour })
	r.provider(api.PublishUnknown)
	widget := resource.NewScalar("widgets", 1)
	widget.ProviderID = &mesos.ResourceProviderID{Value: "provider"}
	r.run(r.custom("ex"), newTask("t1", "", widget))
	if last := r.master.awaitStates(t, "t1", "FAILED"); last.GetReason() != mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT {
		t.Errorf("status %v", last)
	}
}

func TestShutdownGraceThenDestroy(t *testing.T) {
	r := newRig(t, false, nil)
	e := r.custom("ex", "FOREIGN=stubborn")
	e.ShutdownGracePeriod = &mesos.DurationInfo{Nanoseconds: int64(100 * time.Millisecond)}
	r.run(e, newTask("t1", "block"))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.shutdown("ex")
	if x := r.master.awaitExit(t, "ex"); syscall.WaitStatus(x.status).Signal() != syscall.SIGKILL {
		t.Errorf("exit %+v, want SIGKILL", x)
	}
	r.master.awaitStates(t, "t1", "RUNNING FAILED")
}

func TestShutdownFrameworkIsSilent(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("ex"), newTask("t1", "block"))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.master.agent.ShutdownFramework(mesos.FrameworkID{Value: "fw"})
	r.master.awaitExit(t, "ex")
	if got := r.master.states("t1"); got != "RUNNING" {
		t.Errorf("the framework that is gone was told %s", got)
	}
}

func TestReconnect(t *testing.T) {
	r := newRig(t, false, nil)
	f := aFramework()
	checkpoint := true
	f.Checkpoint = &checkpoint
	r.master.agent.Run(f, r.custom("ex"), newTask("t1", "reconnect"))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.master.agent.Run(f, r.custom("ex"), newTask("t2", "env"))
	r.master.awaitStates(t, "t2", "RUNNING FINISHED")
	for _, want := range []string{"MESOS_CHECKPOINT=1\n", "MESOS_RECOVERY_TIMEOUT=15mins\n", "MESOS_SUBSCRIPTION_BACKOFF_MAX=2secs\n"} {
		if got := r.file("ex", "stdout"); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	// A task that did not arrive is sent again.
	r.master.agent.Run(f, r.custom("ex"), newTask("t3", "forget"))
	r.master.awaitStates(t, "t3", "FINISHED")
	if got := r.file("ex", "stdout"); strings.Count(got, "event SUBSCRIBED") != 3 {
		t.Errorf("the executor's events were\n%s", got)
	}
}

func TestRetryUntilAcknowledged(t *testing.T) {
	r := newRig(t, false, func(c *AgentConfig) { c.RetryMin, c.RetryMax = 20*time.Millisecond, 40*time.Millisecond })
	r.master.locked(func() { r.master.mute = true })
	r.run(r.custom("ex"), newTask("t1", "exit 0"))
	r.master.await(t, "three attempts", func() bool { return strings.HasPrefix(r.master.states("t1"), "RUNNING RUNNING RUNNING") })
	var first mesos.TaskStatus
	r.master.locked(func() {
		r.master.mute = false
		first = r.master.statuses[0]
		r.master.agent.Acknowledge(mesos.FrameworkID{Value: "fw"}, first.TaskID, []byte("another uuid...."))
		r.master.agent.Acknowledge(mesos.FrameworkID{Value: "fw"}, first.TaskID, first.UUID)
	})
	r.master.await(t, "the next", func() bool { return strings.HasSuffix(r.master.states("t1"), "RUNNING FINISHED") })
	n, err := askLoop(t.Context(), r.agent.loop, func() (bool, error) {
		return r.agent.streams.HasPending(updates.TaskKey{Framework: "fw", Task: "t1"}), nil
	})
	if err != nil || n {
		t.Errorf("after the last acknowledgement: pending %v, %v", n, err)
	}
}

// An executor's exit is reported after the terminal statuses of its tasks.
func TestExitWaitsForStatuses(t *testing.T) {
	r := newRig(t, false, nil)
	r.master.locked(func() { r.master.mute = true })
	r.run(r.custom("ex"), newTask("t1", "block"), newTask("t2", "exit"))
	r.master.awaitStates(t, "t2", "FAILED")
	r.master.locked(func() {
		if len(r.master.exits) > 0 {
			t.Errorf("exit before t1's end was sent: %+v", r.master.exits)
		}
		for _, s := range r.master.statuses {
			r.master.agent.Acknowledge(mesos.FrameworkID{Value: "fw"}, s.TaskID, s.UUID)
		}
	})
	r.master.awaitStates(t, "t1", "RUNNING FAILED")
	if x := r.master.awaitExit(t, "ex"); x.after != 3 {
		t.Errorf("exit %+v", x)
	}
}

func TestStopEndsEverything(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		r.run(r.custom("polite"), newTask("t1", "block"))
		r.run(r.custom("mute", "FOREIGN=mute"), newTask("t2", ""))
		r.master.awaitStates(t, "t1", "RUNNING")
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if !r.master.lost {
			t.Error("the master was not told")
		}
		if got := r.master.states("t1"); got != "RUNNING FAILED" {
			t.Errorf("t1 was %s", got)
		}
		r.run(r.custom("late"), newTask("t3", ""))
		r.wantNothingLeft()
	})
}
