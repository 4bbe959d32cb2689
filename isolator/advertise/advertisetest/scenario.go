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

// Devices is a host of three GPUs and their names.
func Devices(t testing.TB) (d *struct{ A, B, C string }, start func(agent string) *Daemon) {
	t.Helper()
	h, err := simulated.Host("3xV100", "live")
	if err != nil {
		t.Fatal(err)
	}
	d = &struct{ A, B, C string }{h.Devices[0].UUID, h.Devices[1].UUID, h.Devices[2].UUID}
	return d, func(agent string) *Daemon { return Start(t, agent, h) }
}

// Withdrawal takes devices out of the total of which tasks hold some: they
// are not offered, the others are, whole; tasks run on; and all are offered
// again when they are back. What is awaited differs each time from what was
// offered before.
func Withdrawal(t testing.TB, master, agent string) {
	t.Helper()
	gpus, start := Devices(t)
	a, b, c := gpus.A, gpus.B, gpus.C
	f := Subscribe(t, master, "live")
	d := start(agent)
	f.Launch(f.AwaitOffer("at first", 3, a, b, c), "on-a", a)
	f.Offer("A taken", 2, b, c)

	began := time.Now()
	d.Offer(c)
	f.Offer("A withdrawn while in use, B while free", 1, c)
	t.Logf("out of the offers within %s", time.Since(began).Round(time.Millisecond))
	d.Offer(b, c)
	f.Launch(f.AwaitOffer("B is back", 2, b, c), "on-b", b)
	f.Offer("B taken", 1, c)
	d.Offer()
	f.Offer("all withdrawn", 0)
	d.Offer(c)
	f.Offer("C is back", 1, c)
	d.Stop()
	f.Offer("the daemon is away", 0)
	d.Again()
	f.Launch(f.AwaitOffer("the daemon is back, with C alone", 1, c), "on-c", c)
	f.Offer("C taken", 0)
	f.StillRuns("while withdrawn", "on-a")
	f.Kill("on-a")
	f.Kill("on-c")
	f.Offer("A and C ended, A and B are withdrawn", 1, c)

	d.Offer(a, b, c)
	f.Offer("all are back, B taken", 2, a, c)
	f.StillRuns("to the end", "on-b")
	f.Kill("on-b")
	f.Offer("nothing taken", 3, a, b, c)
	d.Stop()
	f.Offer("the daemon is gone", 0)
}

// Sharing has tasks take parts of a device: what others have is not offered;
// one that is withdrawn is offered to nobody, and its tasks run on; and one
// that is to be whole again stays as it is until they have ended.
func Sharing(t testing.TB, master, agent string) {
	t.Helper()
	h, err := simulated.Host("2xV100", "live")
	if err != nil {
		t.Fatal(err)
	}
	a, b := h.Devices[0], h.Devices[1]
	log := logrus.New()
	log.SetOutput(t.Output())
	forms, err := share.Open(share.Config{Host: h, List: a.UUID, Scaling: share.Scaling{Memory: 1, Cores: 1}, StateDir: t.TempDir(), Live: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	part := func(mem int64, cores int) gpu.Part { return gpu.Part{UUID: a.UUID, MemMiB: mem, Cores: cores} }
	nap := "exec sleep 1000"
	f := Subscribe(t, master, "live")
	d := Start(t, agent, h, func(c *advertise.Config) { c.Sharing = forms })
	f.Offer("one is whole", 1, b.UUID)
	f.LaunchPart(f.AwaitPart("the other is shared", part(a.MemMiB, 100)), "one", nap, part(1000, 30))
	f.LaunchPart(f.AwaitPart("one taken", part(a.MemMiB-1000, 70)), "two", nap, part(a.MemMiB-2000, 70))
	f.Part("two taken", part(1000, 0))

	d.Offer(b.UUID)
	f.Part("withdrawn while in use", part(0, 0))
	d.Offer(a.UUID, b.UUID)
	f.Part("back", part(1000, 0))
	f.Kill("two")
	f.Part("two ended", part(a.MemMiB-1000, 70))

	if err := forms.Set(a.UUID, false); err != nil {
		t.Fatal(err)
	}
	f.Part("unshared while in use", part(a.MemMiB-1000, 70))
	f.StillRuns("to the end", "one")
	f.Kill("one")
	f.Launch(f.AwaitOffer("idle, and whole", 2, a.UUID, b.UUID), "three", a.UUID)
	if err := forms.Set(a.UUID, true); err != nil {
		t.Fatal(err)
	}
	f.Offer("shared while in use", 1, b.UUID)
	f.Kill("three")
	f.Part("idle, and shared", part(a.MemMiB, 100))
	d.Stop()
}
