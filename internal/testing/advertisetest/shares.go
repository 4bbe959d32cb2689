package advertisetest

import (
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/gpu"
)

// shareIn returns the share of a device in an offer.
func shareIn(o mesos.Offer, uuid string) gpu.DeviceShare {
	p := gpu.DeviceShare{UUID: uuid}
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

// AwaitShare declines offers until one has exactly that share of a device, and
// returns that offer.
func (f *TestFramework) AwaitShare(what string, want gpu.DeviceShare) mesos.Offer {
	f.t.Helper()
	return f.awaitMatching(what, fmt.Sprintf("%+v", want), func(o mesos.Offer) (bool, string) {
		p := shareIn(o, want.UUID)
		return p == want, fmt.Sprintf("%+v", p)
	})
}

// ExpectShare waits for such an offer and declines it.
func (f *TestFramework) ExpectShare(what string, want gpu.DeviceShare) {
	f.t.Helper()
	f.sendCall(calls.Decline(f.AwaitShare(what, want).ID).With(calls.RefuseSeconds(0)))
}

// LaunchShare starts a task on a share of an offered device and waits until it
// runs.
func (f *TestFramework) LaunchShare(o mesos.Offer, name, command string, p gpu.DeviceShare) {
	f.t.Helper()
	f.TryShare(o, name, command, p)
	f.AwaitState(name, mesos.TASK_RUNNING)
}

// TryShare is LaunchShare without waiting, for a task that may fail.
func (f *TestFramework) TryShare(o mesos.Offer, name, command string, p gpu.DeviceShare) {
	f.t.Helper()
	taken := takeResources(o.Resources, 0, nil)
	for _, r := range o.Resources {
		amount := map[string]float64{gpu.MemResource(p.UUID): float64(p.MemMiB), gpu.CoresResource(p.UUID): float64(p.Cores)}[r.Name]
		if amount > 0 {
			r.Scalar = &mesos.Value_Scalar{Value: amount}
			taken = append(taken, r)
		}
	}
	f.launchTask(o, name, command, taken)
}
