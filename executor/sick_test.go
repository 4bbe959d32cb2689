package executor

import (
	"context"
	"testing"
	"testing/synctest"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
)

// sickbed is a daemon that tells what a test has it tell.
type sickbed struct {
	asked chan []string
	news  chan change
}

// change is news of a device.
type change struct {
	device    string
	condition gpu.Condition
}

func (s *sickbed) conditions(ctx context.Context, devices []string, tell func(string, gpu.Condition)) {
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

func (s *sickbed) tell(device string, h gpu.Health, reason string) {
	s.news <- change{device, gpu.Condition{Health: h, Reason: reason}}
}

// The framework hears when a device of the task fails and when it works again,
// once each, and the end of the task says why.
func TestSickDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bed := &sickbed{make(chan []string, 1), make(chan change)}
		r := newRig(t)
		r.cfg.Conditions = bed.conditions
		r.cfg.Granted = func() (gpu.Reach, error) { return gpu.Reach{Confined: true, Minors: []int{0, 1}}, nil }
		r.run()
		r.subscribed()
		r.launch(info(t, task.Task{GPUs: 2, DeviceIDs: []string{"GPU-a", "GPU-b"}}))
		r.running()
		if got := <-bed.asked; len(got) != 2 || got[1] != "GPU-b" {
			t.Errorf("asked for %v", got)
		}
		expect := func(healthy bool, message string) {
			t.Helper()
			s := r.update(mesos.TASK_RUNNING)
			r.acknowledge(s)
			if s.Healthy == nil || *s.Healthy != healthy || s.GetMessage() != message {
				t.Errorf("told healthy %v, %q; want %v, %q", s.Healthy, s.GetMessage(), healthy, message)
			}
		}
		bed.tell("GPU-a", gpu.Healthy, "")
		bed.tell("GPU-b", gpu.Suspect, "warm")
		bed.tell("GPU-b", gpu.Failed, "XID 79")
		expect(false, "GPU GPU-b failed: XID 79")
		bed.tell("GPU-b", gpu.Failed, "XID 79") // says nothing new
		bed.tell("GPU-a", gpu.Failed, "hot")
		expect(false, "GPU GPU-a failed: hot; GPU GPU-b failed: XID 79")
		bed.tell("GPU-a", gpu.Recovering, "")
		expect(false, "GPU GPU-b failed: XID 79")
		bed.tell("GPU-b", gpu.Recovering, "")
		expect(true, "its GPUs work again")
		bed.tell("GPU-a", gpu.Failed, "XID 48")
		expect(false, "GPU GPU-a failed: XID 48")

		r.task.exit <- task.Exit{Code: 3}
		s := r.update(mesos.TASK_FAILED)
		if got, want := s.GetMessage(), "exited with status 3; GPU GPU-a failed: XID 48"; got != want {
			t.Errorf("ended with %q, want %q", got, want)
		}
		r.acknowledge(s)
		r.endedWell()
	})
}
