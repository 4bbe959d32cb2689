package executor

import (
	"context"
	"testing"
	"testing/synctest"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
)

// fakeConditions is a daemon that reports conditions from the test.
type fakeConditions struct {
	asked chan []string
	news  chan conditionChange
}

// conditionChange is a change of one device's condition.
type conditionChange struct {
	device    string
	condition gpu.DeviceCondition
}

func (s *fakeConditions) conditions(ctx context.Context, devices []string, tell func(string, gpu.DeviceCondition)) {
	s.asked <- devices
	for {
		select {
		case c := <-s.news:
			tell(c.device, c.condition)
		case <-ctx.Done():
			return
		}
	}
}

func (s *fakeConditions) tell(device string, h gpu.Health, reason string) {
	s.news <- conditionChange{device, gpu.DeviceCondition{Health: h, Reason: reason}}
}

// The framework is notified once when a device of the task fails and once when it
// recovers, and the task's final status contains the cause.
func TestFailedDeviceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bed := &fakeConditions{make(chan []string, 1), make(chan conditionChange)}
		r := newRig(t)
		r.cfg.WatchConditions = bed.conditions
		r.cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{Confined: true, Minors: []int{0, 1}}, nil }
		r.run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{GPUs: 2, DeviceIDs: []string{"GPU-a", "GPU-b"}}))
		r.running()
		if got := <-bed.asked; len(got) != 2 || got[1] != "GPU-b" {
			t.Errorf("watched %v", got)
		}
		expect := func(healthy bool, message string) {
			t.Helper()
			s := r.update(mesos.TASK_RUNNING)
			r.acknowledge(s)
			if s.Healthy == nil || *s.Healthy != healthy || s.GetMessage() != message {
				t.Errorf("got healthy %v, %q; want %v, %q", s.Healthy, s.GetMessage(), healthy, message)
			}
		}
		bed.tell("GPU-a", gpu.Healthy, "")
		bed.tell("GPU-b", gpu.Suspect, "warm")
		bed.tell("GPU-b", gpu.Failed, "XID 79")
		expect(false, "GPU GPU-b failed: XID 79")
		bed.tell("GPU-b", gpu.Failed, "XID 79") // unchanged condition
		bed.tell("GPU-a", gpu.Failed, "hot")
		expect(false, "GPU GPU-a failed: hot; GPU GPU-b failed: XID 79")
		bed.tell("GPU-a", gpu.Recovering, "")
		expect(false, "GPU GPU-b failed: XID 79")
		bed.tell("GPU-b", gpu.Recovering, "")
		expect(true, "its GPUs work again")
		bed.tell("GPU-a", gpu.Failed, "XID 48")
		expect(false, "GPU GPU-a failed: XID 48")

		r.task.exit <- task.ExitStatus{Code: 3}
		s := r.update(mesos.TASK_FAILED)
		if got, want := s.GetMessage(), "exited with status 3; GPU GPU-a failed: XID 48"; got != want {
			t.Errorf("ended with %q, want %q", got, want)
		}
		r.acknowledge(s)
		r.endedWell()
	})
}
