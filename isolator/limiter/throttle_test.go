package limiter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	kernel  = 5 * time.Millisecond
	horizon = 60 * time.Second // simulated time
)

// measureShares runs one container per limit concurrently for a minute of simulated time.
// It returns the percentage of that time that the device worked for each. Machine load
// does not matter: the simulated clock stops while any process computes.
func measureShares(t *testing.T, device, kind string, limits ...ContainerLimits) []float64 {
	t.Helper()
	got := make([]float64, len(limits))
	programs := make([]*program, len(limits))
	for i, l := range limits {
		programs[i] = newContainer(t, device, l).start("proc")
		programs[i].must(0, "ctx 0")
	}
	var wg sync.WaitGroup
	for i, p := range programs {
		wg.Go(func() { got[i] = float64(p.must(1, "busy %s %d %d", kind, kernel, horizon)) / 10000 })
	}
	wg.Wait()
	return got
}

func wantWithin(t *testing.T, got, want float64) {
	t.Helper()
	t.Logf("share %.0f%%: got %.2f%%", want, got)
	if math.Abs(got-want) > 3 {
		t.Errorf("got %.2f%% of the device, want %.0f%% within 3 points", got, want)
	}
}

func TestCoreShareAlone(t *testing.T) {
	for _, want := range []int{25, 50, 75} {
		wantWithin(t, measureShares(t, newMachineFile(t, 16<<30, 1, 0), "kernel", newLimits(1<<30, want))[0], float64(want))
	}
	if got := measureShares(t, newMachineFile(t, 16<<30, 1, 0), "kernel", newLimits(1<<30, 100))[0]; got < 99 {
		t.Errorf("without a core limit: got %.2f%%, want all of the device", got)
	}
}

func TestCoreSharesSideBySide(t *testing.T) {
	got := measureShares(t, newMachineFile(t, 16<<30, 2, 0), "kernel", newLimits(1<<30, 30), newLimits(1<<30, 70))
	wantWithin(t, got[0], 30)
	wantWithin(t, got[1], 70)
}

// The processes of one container have one share together.
func TestCoreShareIsPerContainer(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 16<<30, 2, 0), newLimits(1<<30, 50))
	programs := c.startMany(2)
	got := make([]float64, 2)
	var wg sync.WaitGroup
	for i, p := range programs {
		wg.Go(func() { got[i] = float64(p.must(1, "busy kernel %d %d", kernel, horizon)) / 10000 })
	}
	wg.Wait()
	wantWithin(t, got[0]+got[1], 50)
	for _, p := range programs { // wait times are written at the next refresh
		p.must(1, "launch kernel 1000000")
	}
	uses, err := ReadUsageFile(c.path("books"), c.limits)
	if err != nil {
		t.Fatal(err)
	}
	if uses[0].Throttled < horizon/4 {
		t.Errorf("throttled for %v, want at least a quarter of %v", uses[0].Throttled, horizon)
	}
}

func TestEveryKindOfLaunchIsThrottled(t *testing.T) {
	for _, kind := range []string{"kernel_ptsz", "ex", "cooperative", "multi", "graph", "graph_ptsz", "grid"} {
		t.Run(kind, func(t *testing.T) {
			wantWithin(t, measureShares(t, newMachineFile(t, 16<<30, 1, 0), kind, newLimits(1<<30, 25))[0], 25)
		})
	}
}

// If NVML uses another PID namespace, the process finds its PID and the share is still
// enforced.
func TestCoreShareAcrossPIDNamespaces(t *testing.T) {
	got := measureShares(t, newMachineFile(t, 16<<30, 2, 100000), "kernel", newLimits(1<<30, 30), newLimits(1<<30, 70))
	wantWithin(t, got[0], 30)
	wantWithin(t, got[1], 70)
}

// With burst, a container may use an idle device fully, and is limited to its share while
// another container uses the device.
func TestBurstUsesIdleDevice(t *testing.T) {
	l := newLimits(1<<30, 25)
	l.Devices[0].Burst = true
	if got := measureShares(t, newMachineFile(t, 16<<30, 1, 0), "kernel", l)[0]; got < 95 {
		t.Errorf("on an idle device: got %.2f%%, want nearly all of it", got)
	}
	got := measureShares(t, newMachineFile(t, 16<<30, 2, 0), "kernel", l, newLimits(1<<30, 75))
	wantWithin(t, got[0], 25)
}

// Without a usage file, each process enforces the core limit for itself.
func TestDamagedUsageFileDoesNotLiftCoreShare(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 16<<30, 1, 0), newLimits(1<<30, 50))
	p := c.start("proc")
	p.must(0, "ctx 0")
	if err := os.Truncate(filepath.Join(c.dir, "books"), 0); err != nil {
		t.Fatal(err)
	}
	got := float64(p.must(1, "busy kernel %d %d", kernel, horizon)) / 10000
	wantWithin(t, got, 50)
}

// editRecord writes the first device's record as the library would, with the test's
// change.
func (c *container) editRecord(change func(*deviceRecord)) {
	c.t.Helper()
	b := c.readAll()
	r := &b.Device[0]
	change(r)
	r.Checksum = r.computeChecksum(c.limits.Nonce)
	var data bytes.Buffer
	if err := binary.Write(&data, binary.LittleEndian, r); err != nil {
		c.t.Fatal(err)
	}
	f, err := os.OpenFile(c.path("books"), os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data.Bytes(), 64); err != nil {
		c.t.Fatal(err)
	}
}

// Timestamps in the future, as after the clock was set back, neither lift the core limit
// nor block launches forever.
func TestClockSetBack(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 16<<30, 1, 0), newLimits(1<<30, 25))
	p := c.start("proc")
	p.must(0, "ctx 0")
	c.editRecord(func(r *deviceRecord) { r.Accounted = math.MaxUint64 / 2 })
	wantWithin(t, float64(p.must(1, "busy kernel %d %d", kernel, horizon))/10000, 25)

	c = newContainer(t, newMachineFile(t, 16<<30, 0, 0), newLimits(1<<30, 25))
	c.library = c.copyWithPaths("real-clock.so")
	p = c.start("proc")
	p.must(0, "ctx 0")
	c.editRecord(func(r *deviceRecord) {
		r.Credit, r.Accounted = -int64(100*time.Millisecond), uint64(time.Now().Add(time.Hour).UnixMicro())
	})
	stuck := time.AfterFunc(time.Minute, p.kill)
	defer stuck.Stop()
	p.must(1, "launch kernel 0")
}

// Setting the clock forward by an hour does not clear a debt, because no device time has
// passed.
func TestClockSetForward(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 16<<30, 0, 0), newLimits(1<<30, 25))
	c.library = c.copyWithPaths("real-clock.so")
	p := c.start("proc")
	p.must(0, "ctx 0")
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	c.editRecord(func(r *deviceRecord) {
		r.Credit, r.Accounted, r.AccountedNs = -int64(500*time.Millisecond), uint64(time.Now().Add(-time.Hour).UnixMicro()), uint64(now.Nano())
	})
	began := time.Now()
	p.must(2, "launch kernel 1")
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("the launch waited %v for half a second of device time at a quarter", took)
	}
}

// If nothing reports a device's use, the share is not enforced: launches continue, and a
// message is logged.
func TestCoreShareIsNotEnforcedWithoutSamples(t *testing.T) {
	for name, blind := range map[string]func(*testing.T, *container, *exec.Cmd){
		"no figures, as with MIG": func(_ *testing.T, _ *container, cmd *exec.Cmd) { withEnvironment(cmd, "STANDIN_NO_USE", "1") },
		"no NVML": func(t *testing.T, c *container, cmd *exec.Cmd) {
			dir := t.TempDir()
			if err := os.Symlink(filepath.Join(c.built, "libcuda.so.1"), dir+"/libcuda.so.1"); err != nil {
				t.Fatal(err)
			}
			withEnvironment(cmd, "LD_LIBRARY_PATH", dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, newMachineFile(t, 16<<30, inRealTime, 0), newLimits(1<<30, 25))
			c.library = c.copyWithPaths("real-clock.so")
			cmd := c.command("proc")
			blind(t, c, cmd)
			p := startProgram(t, cmd)
			p.must(0, "ctx 0")
			c.editRecord(func(r *deviceRecord) { r.Credit = -int64(10 * time.Second) })
			stuck := time.AfterFunc(time.Minute, p.kill)
			defer stuck.Stop()
			for range 5 {
				p.must(1, "launch kernel 1000000")
			}
			uses, err := ReadUsageFile(c.path("books"), c.limits)
			if err != nil || !uses[0].NotMeasured {
				t.Errorf("got %+v, %v; want the use unseen", uses, err)
			}
			if said := p.end(); strings.Count(said, "core share is not kept") != 1 {
				t.Errorf("got %q, want one line", said)
			}
		})
	}
}

// Each process is charged with its own use, for any number of processes on the device.
func TestManyProcessesOnTheDevice(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 16<<30, 1, 0), newLimits(1<<30, 50))
	p := startProgram(t, withEnvironment(c.command("proc"), "STANDIN_CROWD", "300"))
	p.must(0, "ctx 0")
	wantWithin(t, float64(p.must(1, "busy kernel %d %d", kernel, horizon))/10000, 50)
}

// Measures a launch without a core limit, with a limit that is not reached, and without
// the library.
func BenchmarkLaunch(b *testing.B) {
	for _, bb := range []struct {
		name    string
		preload bool
		cores   int
	}{{"bare", false, 100}, {"no core limit", true, 100}, {"core limit", true, 99}} {
		b.Run(bb.name, func(b *testing.B) {
			c := newContainer(b, newMachineFile(b, 1<<30, 0, 0), newLimits(512*mib, bb.cores))
			c.library = c.copyWithPaths("real-clock.so")
			cmd := c.command("proc")
			if !bb.preload {
				cmd.Env = append(cmd.Env, "LD_PRELOAD=")
			}
			p := startProgram(b, cmd)
			p.must(0, "ctx 0")
			b.ResetTimer()
			ps := p.must(1, "time %d", max(b.N, 1000))
			b.ReportMetric(float64(ps)/1000, "ns/launch")
		})
	}
}

// Measures an allocation or free, and a memory query every eighth time.
func BenchmarkAllocation(b *testing.B) {
	for _, preload := range []bool{false, true} {
		b.Run(fmt.Sprintf("preload=%v", preload), func(b *testing.B) {
			c := newContainer(b, newMachineFile(b, 1<<30, 0, 0), newLimits(512*mib, 100))
			cmd := c.command("link")
			if !preload {
				cmd.Env = append(cmd.Env, "LD_PRELOAD=")
			}
			p := startProgram(b, cmd)
			p.must(0, "ctx 0")
			b.ResetTimer()
			p.must(1, "churn 1 %d 1000", b.N)
		})
	}
}
