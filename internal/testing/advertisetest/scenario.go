package advertisetest

import (
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/simulated"
)

// SimulateDevices returns the UUIDs of a host with three GPUs, and a function
// that starts a daemon for it.
func SimulateDevices(t testing.TB) (d *struct{ A, B, C string }, start func(agent string) *TestDaemon) {
	t.Helper()
	h, err := simulated.NewHost("3xV100", "live")
	if err != nil {
		t.Fatal(err)
	}
	d = &struct{ A, B, C string }{h.Devices[0].UUID, h.Devices[1].UUID, h.Devices[2].UUID}
	return d, func(agent string) *TestDaemon { return StartDaemon(t, agent, h) }
}

// RunWithdrawal withdraws devices while tasks hold some of them. Withdrawn
// devices must not be offered, all others must be, tasks must keep running,
// and all devices must be offered again when they return. Each expected offer
// differs from the previous one.
func RunWithdrawal(t testing.TB, master, agent string) {
	t.Helper()
	gpus, start := SimulateDevices(t)
	a, b, c := gpus.A, gpus.B, gpus.C
	f := Subscribe(t, master, "live")
	d := start(agent)
	f.LaunchTask(f.AwaitOffer("at first", 3, a, b, c), "on-a", a)
	f.ExpectOffer("A taken", 2, b, c)

	began := time.Now()
	d.OfferOnly(c)
	f.ExpectOffer("A withdrawn while in use, B while free", 1, c)
	t.Logf("out of the offers within %s", time.Since(began).Round(time.Millisecond))
	d.OfferOnly(b, c)
	f.LaunchTask(f.AwaitOffer("B is back", 2, b, c), "on-b", b)
	f.ExpectOffer("B taken", 1, c)
	d.OfferOnly()
	f.ExpectOffer("all withdrawn", 0)
	d.OfferOnly(c)
	f.ExpectOffer("C is back", 1, c)
	d.Stop()
	f.ExpectOffer("the daemon is away", 0)
	d.Restart()
	f.LaunchTask(f.AwaitOffer("the daemon is back, with C alone", 1, c), "on-c", c)
	f.ExpectOffer("C taken", 0)
	f.ExpectRunning("while withdrawn", "on-a")
	f.KillTask("on-a")
	f.KillTask("on-c")
	f.ExpectOffer("A and C ended, A and B are withdrawn", 1, c)

	d.OfferOnly(a, b, c)
	f.ExpectOffer("all are back, B taken", 2, a, c)
	f.ExpectRunning("to the end", "on-b")
	f.KillTask("on-b")
	f.ExpectOffer("nothing taken", 3, a, b, c)
	d.Stop()
	f.ExpectOffer("the daemon is gone", 0)
}

// RunSharing launches tasks on shares of a device. Allocated shares must not
// be offered. A withdrawn device must not be offered while its tasks keep
// running. A device that is to become whole must keep its mode until its tasks
// have ended.
func RunSharing(t testing.TB, master, agent string) {
	t.Helper()
	h, err := simulated.NewHost("2xV100", "live")
	if err != nil {
		t.Fatal(err)
	}
	a, b := h.Devices[0], h.Devices[1]
	log := logrus.New()
	log.SetOutput(t.Output())
	forms, err := share.OpenModes(share.ModeConfig{
		Host:     h,
		List:     a.UUID,
		Scaling:  share.ShareScaling{Memory: 1, Cores: 1},
		StateDir: t.TempDir(),
		Live:     true,
		Log:      log,
	})
	if err != nil {
		t.Fatal(err)
	}
	part := func(mem int64, cores int) gpu.DeviceShare {
		return gpu.DeviceShare{UUID: a.UUID, MemMiB: mem, Cores: cores}
	}
	nap := "exec sleep 1000"
	f := Subscribe(t, master, "live")
	d := StartDaemon(t, agent, h, func(c *advertise.ProviderConfig) { c.Modes = forms })
	f.ExpectOffer("one is whole", 1, b.UUID)
	f.LaunchShare(f.AwaitShare("the other is shared", part(a.MemMiB, 100)), "one", nap, part(1000, 30))
	f.LaunchShare(f.AwaitShare("one taken", part(a.MemMiB-1000, 70)), "two", nap, part(a.MemMiB-2000, 70))
	f.ExpectShare("two taken", part(1000, 0))

	d.OfferOnly(b.UUID)
	f.ExpectShare("withdrawn while in use", part(0, 0))
	d.OfferOnly(a.UUID, b.UUID)
	f.ExpectShare("back", part(1000, 0))
	f.KillTask("two")
	f.ExpectShare("two ended", part(a.MemMiB-1000, 70))

	if err := forms.RequestMode(a.UUID, false); err != nil {
		t.Fatal(err)
	}
	f.ExpectShare("unshared while in use", part(a.MemMiB-1000, 70))
	f.ExpectRunning("to the end", "one")
	f.KillTask("one")
	f.LaunchTask(f.AwaitOffer("idle, and whole", 2, a.UUID, b.UUID), "three", a.UUID)
	if err := forms.RequestMode(a.UUID, true); err != nil {
		t.Fatal(err)
	}
	f.ExpectOffer("shared while in use", 1, b.UUID)
	f.KillTask("three")
	f.ExpectShare("idle, and shared", part(a.MemMiB, 100))
	d.Stop()
}
