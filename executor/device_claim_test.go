package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// claimInfo is a task with one GPU by name, from a resource provider if provider is set.
func claimInfo(t *testing.T, provider bool) mesos.TaskInfo {
	t.Helper()
	i := info(t, task.TaskSpec{Argv: []string{"true"}, GPUs: 1, DeviceIDs: []string{"GPU-a"}, KillGrace: 30 * time.Second})
	for at := range i.Resources {
		if provider && strings.HasPrefix(i.Resources[at].Name, "gpu") {
			i.Resources[at].ProviderID = &mesos.ResourceProviderID{Value: "p"}
		}
	}
	return i
}

// newClaimRig returns an executor with one GPU whose claims are answered by answer.
func newClaimRig(t *testing.T, answer func(ctx context.Context) error) *testRig {
	r := newRig(t)
	r.cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{}, nil }
	r.cfg.ClaimDevices = func(ctx context.Context, container string, devices []string) error {
		if container != "container" || !slices.Equal(devices, []string{"GPU-a"}) {
			t.Errorf("claims %v for container %q", devices, container)
		}
		return answer(ctx)
	}
	return r
}

func faultLabel(s mesos.TaskStatus) string {
	for _, l := range s.GetLabels().GetLabels() {
		if l.Key == job.MachineFaultLabel {
			return l.GetValue()
		}
	}
	return ""
}

// Whatever runs the task, its executor asks the daemon before it starts it. A refused device fails
// the task at once, as a fault of the machine, with the daemon's reason as the message.
func TestRefusedDeviceIsMachineFault(t *testing.T) {
	image := &mesos.Image{Type: mesos.Image_DOCKER.Enum(), Docker: &mesos.Image_Docker{Name: "debian:12"}}
	for kind, container := range map[string]*mesos.ContainerInfo{
		"process": nil,
		"unified": {Type: mesos.ContainerInfo_MESOS.Enum(), Mesos: &mesos.ContainerInfo_MesosInfo{Image: image}},
		"Docker":  dockerInfo(nil),
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const reason = "GPU GPU-a is held by container c1 (task t of framework f): end the holder or wait for its end"
				r := newClaimRig(t, func(context.Context) error { return &DeviceRefusedError{Reason: reason} })
				r.cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) {
					return gpu.DeviceAccess{Confined: true, Minors: []int{0}}, nil
				}
				r.task.start <- nil // it would run
				r.run()
				r.subscribed()
				i := claimInfo(t, true)
				i.Container = container
				start := time.Now()
				r.launch(i)
				r.acknowledge(r.update(mesos.TASK_STARTING))
				s := (<-r.agent.calls).Update.Status
				if s.GetState() == mesos.TASK_RUNNING {
					t.Errorf("a task (%s) was started with GPU-a, which another container holds: its executor did not ask the daemon", kind)
					r.acknowledge(s)
					r.task.exit <- task.ExitStatus{}
					s = r.update(mesos.TASK_FINISHED)
				} else if s.GetState() != mesos.TASK_FAILED || s.GetMessage() != "not started: "+reason || faultLabel(s) != "device_held" ||
					s.GetReason() != mesos.REASON_CONTAINER_LAUNCH_FAILED || r.task.got.ID != "" {
					t.Errorf("%s, message %q, label %q, reason %s; started %q", s.GetState(), s.GetMessage(), faultLabel(s), s.GetReason(), r.task.got.ID)
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("failed after %s", took)
				}
				r.acknowledge(s)
				r.endedWell()
			})
		})
	}
}

// A daemon that does not answer is waited for. A task whose devices it has offered does not start
// without its answer; devices of the agent's flags may exist without a daemon.
func TestClaimWaitsForDaemon(t *testing.T) {
	missing := fmt.Errorf("%w: dial: %w", ErrNoDaemon, fs.ErrNotExist)
	for _, c := range []struct {
		name     string
		provider bool
		err      error
		downFor  time.Duration
		fails    bool
		want     time.Duration
	}{
		{"answers", true, nil, 0, false, 0},
		{"restarts", true, errors.New("connection refused"), 5 * time.Second, false, 5 * time.Second},
		{"restarts, devices of flags", false, errors.New("connection refused"), 5 * time.Second, false, 5 * time.Second},
		{"is gone", true, errors.New("connection refused"), time.Hour, true, 30 * time.Second},
		{"is gone, devices of flags", false, errors.New("connection refused"), time.Hour, true, 30 * time.Second},
		{"has never run", true, missing, time.Hour, true, 30 * time.Second},
		{"has never run, devices of flags", false, missing, time.Hour, false, 0},
		{"is of an earlier version", true, fmt.Errorf("%w: 404", ErrNoClaims), time.Hour, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				r := newClaimRig(t, func(context.Context) error {
					if time.Since(start) < c.downFor {
						return c.err
					}
					return nil
				})
				r.task.start <- nil
				r.run()
				r.subscribed()
				r.launch(claimInfo(t, c.provider))
				r.acknowledge(r.update(mesos.TASK_STARTING))
				if !c.fails {
					r.acknowledge(r.update(mesos.TASK_RUNNING))
					r.task.exit <- task.ExitStatus{}
				}
				if got := time.Since(start); !c.fails && got != c.want {
					t.Errorf("started after %s, want %s", got, c.want)
				}
				if c.fails {
					s := r.update(mesos.TASK_FAILED)
					want := "not started: the agent's GPU daemon has not confirmed within 30s and 31 attempts that no other container holds the task's 1 GPU: "
					if got := time.Since(start); got != c.want || !strings.HasPrefix(s.GetMessage(), want) || faultLabel(s) != "device_held" || len(s.Labels.Labels) != 1 {
						t.Errorf("after %s: message %q, labels %v", got, s.GetMessage(), s.Labels)
					}
					r.acknowledge(s)
				} else {
					r.acknowledge(r.update(mesos.TASK_FINISHED))
				}
				r.endedWell()
			})
		})
	}
}

// A daemon that hangs delays one attempt by 10 s.
func TestHangingDaemonIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		r := newClaimRig(t, func(ctx context.Context) error {
			if attempts++; attempts == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}).run()
		start := time.Now()
		r.subscribed()
		r.launch(claimInfo(t, true))
		r.running()
		if got := time.Since(start); got != 11*time.Second {
			t.Errorf("started after %s, want 11s", got)
		}
		r.task.exit <- task.ExitStatus{}
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
	})
}

// A KILL during the claim ends it. The task is killed, and the machine is not at fault.
func TestKillDuringClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, func(ctx context.Context) error {
			<-ctx.Done()
			return &DeviceRefusedError{Reason: "late"}
		}).run()
		r.subscribed()
		r.launch(claimInfo(t, true))
		r.acknowledge(r.update(mesos.TASK_STARTING))
		r.kill(-1)
		s := r.update(mesos.TASK_KILLED)
		if s.Labels != nil {
			t.Errorf("labels %v", s.Labels)
		}
		r.acknowledge(s)
		r.endedWell()
	})
}

// A task that names no devices claims none: the agent's own isolator chose them.
func TestTasksWithoutNamedDevicesClaimNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClaimRig(t, func(context.Context) error { return &DeviceRefusedError{Reason: "claimed"} }).run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{Argv: []string{"true"}, GPUs: 1}))
		r.running()
		r.task.exit <- task.ExitStatus{}
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
	})
}
