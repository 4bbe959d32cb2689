package advertisetest

import (
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/gpu"
)

// partOf is what an offer has of a shared device.
func partOf(o mesos.Offer, uuid string) gpu.Part {
	p := gpu.Part{UUID: uuid}
	for _, r := range o.Resources {
		switch r.Name {
		case gpu.MemResource(uuid):
			p.MemMiB += int64(r.GetScalar().GetValue())
		case gpu.CoresResource(uuid):
			p.Cores += int(r.GetScalar().GetValue())
		}
	}
	return p
}

// AwaitPart declines offers until one has just that much of a shared device,
// and returns it undeclined.
func (f *Framework) AwaitPart(what string, want gpu.Part) mesos.Offer {
	f.t.Helper()
	return f.await(what, fmt.Sprintf("%+v", want), func(o mesos.Offer) (bool, string) {
		p := partOf(o, want.UUID)
		return p == want, fmt.Sprintf("%+v", p)
	})
}

// Part awaits such an offer and gives it back.
func (f *Framework) Part(what string, want gpu.Part) {
	f.t.Helper()
	f.call(calls.Decline(f.AwaitPart(what, want).ID).With(calls.RefuseSeconds(0)))
}

// LaunchPart starts a task on a part of a device of the offer, and waits until
// it runs.
func (f *Framework) LaunchPart(o mesos.Offer, name, command string, p gpu.Part) {
	f.t.Helper()
	f.TryPart(o, name, command, p)
	f.AwaitState(name, mesos.TASK_RUNNING)
}

// TryPart is LaunchPart for a task that may not come to run.
func (f *Framework) TryPart(o mesos.Offer, name, command string, p gpu.Part) {
	f.t.Helper()
	taken := take(o.Resources, 0, nil)
	for _, r := range o.Resources {
		amount := map[string]float64{gpu.MemResource(p.UUID): float64(p.MemMiB), gpu.CoresResource(p.UUID): float64(p.Cores)}[r.Name]
		if amount > 0 {
			r.Scalar = &mesos.Value_Scalar{Value: amount}
			taken = append(taken, r)
		}
	}
	f.launchTask(o, name, command, taken)
}
