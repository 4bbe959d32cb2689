package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor"
	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/testing/reexec"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

const oursCommand = "our-executor"

// ours is this project's executor with a shorter interval of disk measurements.
func ours(args []string) error {
	return reexec.ExecutorCommand(func(c *executor.ExecutorConfig) { c.DiskInterval = 50 * time.Millisecond })(args)
}

// runOurs runs a task with this project's executor.
func (r *rig) runOurs(task mesos.TaskInfo, variables ...string) {
	r.t.Helper()
	e := r.custom("ex", append(variables, "MESOS_GPU_VOLUMES="+filepath.Join(r.t.TempDir(), "volumes"))...)
	e.Command.Arguments = []string{"ours", oursCommand}
	r.run(e, task)
}

func doing(script string, resources ...mesos.Resource) mesos.TaskInfo {
	t := newTask("t", "", resources...)
	t.Data, t.Command = nil, shell(script)
	return t
}

func often[T mesos.CheckInfo | mesos.HealthCheck](c *T) *T {
	delay, interval := 0.0, 0.05
	switch c := any(c).(type) {
	case *mesos.CheckInfo:
		c.DelaySeconds, c.IntervalSeconds = &delay, &interval
	case *mesos.HealthCheck:
		c.DelaySeconds, c.IntervalSeconds = &delay, &interval
	}
	return c
}

// awaitStatus waits for a status of the task that the condition accepts.
func (r *rig) awaitStatus(what string, will func(mesos.TaskStatus) bool) mesos.TaskStatus {
	r.t.Helper()
	var found mesos.TaskStatus
	r.master.await(r.t, what, func() bool {
		for _, s := range r.master.statuses {
			if will(s) {
				found = s
				return true
			}
		}
		return false
	})
	return found
}

// The command of a check runs in the task's container at the requested interval,
// and leaves no files.
func TestOwnExecutorRunsCommandChecks(t *testing.T) {
	archive := testimage.BusyboxArchive(t, "app:1", nil, nil)
	test := func(t *testing.T, root bool, container *mesos.ContainerInfo) {
		r := newRig(t, root, func(c *AgentConfig) { c.ImagesDir = filepath.Dir(archive) })
		work := doing("until [ -e go ]; do :; done; touch well; sleep 1000")
		work.Container = container
		work.Command = withVariable(work.Command, "STATUS", "7")
		work.Check = often(&mesos.CheckInfo{
			Type:    mesos.CheckInfo_COMMAND,
			Command: &mesos.CheckInfo_Command{Command: *shell("touch go; [ ! -e well ] || exit $STATUS")},
		})
		work.HealthCheck = often(&mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND, Command: shell("[ -e well ]")})
		r.runOurs(work)
		s := r.awaitStatus("the check's status", func(s mesos.TaskStatus) bool {
			return s.GetCheckStatus().GetCommand().GetExitCode() == 7 && s.GetHealthy()
		})
		if s.GetState() != mesos.TASK_RUNNING {
			t.Errorf("the task is %s", s.GetState())
		}
		// Only the running check may have files.
		checks, err := filepath.Glob(filepath.Join(r.sandbox("ex"), "containers", "*", "containers", "*"))
		if err != nil || len(checks) > 2 {
			t.Errorf("checks left %v (%v)", checks, err)
		}
		r.kill("t")
		last := r.awaitStatus("its end", func(s mesos.TaskStatus) bool { return s.GetState() == mesos.TASK_KILLED })
		if last.GetCheckStatus().GetCommand().GetExitCode() != 7 {
			t.Errorf("the last status carries check %v", last.CheckStatus)
		}
		r.master.awaitExit(t, "ex")
	}
	kinds(t, func(t *testing.T, root bool) { test(t, root, nil) })
	t.Run("image", func(t *testing.T) {
		testneeds.RequireDevicesCgroup(t)
		testneeds.RequireProgram(t, "runc", "runc")
		test(t, true, imageInfo("app:1"))
	})
}

// A task that fails its TCP health check is killed, and its status has the
// reason.
func TestOwnExecutorKillsTaskThatFailsTCPCheck(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		service, err := net.Listen("tcp", "127.0.0.1:0") // in the task's place, whose network it has
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := net.SplitHostPort(service.Addr().String())
		port, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		two := uint32(2)
		work := doing("sleep 1000")
		work.HealthCheck = often(&mesos.HealthCheck{Type: mesos.HealthCheck_TCP, TCP: &mesos.HealthCheck_TCPCheckInfo{Port: uint32(port)}, ConsecutiveFailures: &two})
		r.runOurs(work)
		r.awaitStatus("a healthy task", func(s mesos.TaskStatus) bool { return s.GetHealthy() })
		if err := service.Close(); err != nil {
			t.Fatal(err)
		}
		last := r.awaitStatus("its end", func(s mesos.TaskStatus) bool { return s.GetState() == mesos.TASK_KILLED })
		if last.Healthy == nil || *last.Healthy || !strings.HasPrefix(last.GetMessage(), "unhealthy, 2 times of 2: ") {
			t.Errorf("healthy %v, %q", last.Healthy, last.GetMessage())
		}
	})
}

// A task that exceeds its disk limit ends. Its files are measured in the agent's
// file system.
func TestOwnExecutorEnforcesDiskLimit(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		r.runOurs(doing("dd if=/dev/zero of=big bs=1M count=20 conv=fsync; sleep 1000", resource.NewScalar("disk", 4)))
		last := r.awaitStatus("its end", func(s mesos.TaskStatus) bool { return s.GetState() == mesos.TASK_FAILED })
		if last.GetReason() != mesos.REASON_CONTAINER_LIMITATION_DISK || !strings.HasSuffix(last.GetMessage(), "of disk, and its limit is 4.0 MiB") {
			t.Errorf("ended for %s with %q", last.GetReason(), last.GetMessage())
		}
		if l := last.GetLimitation().GetResources(); len(l) != 1 || l[0].Scalar.GetValue() != 4 {
			t.Errorf("limitation is %v", l)
		}
	})
}

// After an executor is killed, the processes of the task and its check and their
// cgroups are gone.
func TestKilledExecutorLeavesNoProcesses(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		work := doing("echo $$ > pid; sleep 1000 & sleep 1000")
		work.Check = often(&mesos.CheckInfo{Type: mesos.CheckInfo_COMMAND, Command: &mesos.CheckInfo_Command{Command: *shell("sleep 1000")}})
		r.runOurs(work)
		r.awaitStatus("the task", func(s mesos.TaskStatus) bool { return s.GetState() == mesos.TASK_RUNNING })
		dir := readlink(t, r.sandbox("ex"))
		killed := false
		for pid, cwd := range workingDirs() {
			if command, _ := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", pid)); cwd == dir && strings.Contains(string(command), oursCommand) {
				n, err := strconv.Atoi(pid)
				if err != nil {
					t.Fatal(err)
				}
				killed = syscall.Kill(n, syscall.SIGKILL) == nil
			}
		}
		if !killed {
			t.Fatalf("no executor in %s", dir)
		}
		last := r.awaitStatus("its end", func(s mesos.TaskStatus) bool { return s.GetState() == mesos.TASK_FAILED })
		if last.GetReason() != mesos.REASON_EXECUTOR_TERMINATED {
			t.Errorf("ended for %s: %s", last.GetReason(), last.GetMessage())
		}
		r.master.awaitExit(t, "ex")
		for pid, cwd := range workingDirs() {
			if strings.HasPrefix(cwd, dir) {
				t.Errorf("process %s is left in %s", pid, cwd)
			}
		}
		if left, err := filepath.Glob("/sys/fs/cgroup/*" + Cgroup(r.agent.cfg.WorkDir) + "/*/cgroup.procs"); err != nil || len(left) != 0 {
			t.Errorf("cgroups left: %v (%v)", left, err)
		}
	})
}
