package limiter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// readAll returns the content of the container's usage file.
func (c *container) readAll() usageFile {
	c.t.Helper()
	data, err := os.ReadFile(c.path("books"))
	if err != nil {
		c.t.Fatal(err)
	}
	var b usageFile
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, &b); err != nil {
		c.t.Fatal(err)
	}
	return b
}

// startSlow starts a program whose contexts take as long as with a real driver.
func (c *container) startSlow() *program {
	c.t.Helper()
	return startProgram(c.t, withEnvironment(c.command("proc"), "STANDIN_SLOW", "1"))
}

// olderDrivers are versions whose libraries lack functions of the newest one, by their folder below the built ones.
var olderDrivers = []string{"", "470"}

// withDriver lets the program load libcuda and NVML of an older driver.
func (c *container) withDriver(cmd *exec.Cmd, driver string) *exec.Cmd {
	return withEnvironment(cmd, "LD_LIBRARY_PATH", filepath.Join(c.built, driver)+":"+c.built)
}

// Processes find their own use with the names that NVML's functions have in each driver: otherwise a container
// would be charged the use of the whole device.
func TestSharesWithOlderDrivers(t *testing.T) {
	for _, driver := range olderDrivers {
		t.Run("driver "+driver, func(t *testing.T) {
			device := newMachineFile(t, 64<<30, 2, 100000)
			containers := []*container{newContainer(t, device, newLimits(1<<30, 30)), newContainer(t, device, newLimits(1<<30, 70))}
			var programs []*program
			for _, c := range containers {
				programs = append(programs, startProgram(t, c.withDriver(c.command("proc"), driver)))
			}
			var wg sync.WaitGroup
			got := make([]float64, 2)
			for i, p := range programs {
				p.must(0, "ctx 0")
				if used := containers[i].used(0); used != ctxBytes {
					t.Errorf("container %d is charged %d bytes for its context, want %d", i, used, ctxBytes)
				}
			}
			for i, p := range programs {
				wg.Go(func() { got[i] = float64(p.must(1, "busy kernel %d %d", kernel, horizon)) / 10000 })
			}
			wg.Wait()
			wantWithin(t, got[0], 30)
			wantWithin(t, got[1], 70)
		})
	}
}

// A device that does not exist is the driver's error, not a lack of memory.
func TestUnknownDeviceIsDriversError(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 64<<30, 0, 0), newLimits(1<<30, 100))
	p := c.start("proc")
	p.want(invalidValue, 0, "ctx 7")
	p.want(invalidValue, 0, "retain 7")
	if text := p.end(); text != "" {
		t.Errorf("standard error has %q", text)
	}
}

// Modules of any size are counted, in each PID namespace, also by processes that have not measured a context.
func TestLargeModules(t *testing.T) {
	for _, driver := range olderDrivers {
		for _, offset := range []int{0, 100000} {
			c := newContainer(t, newMachineFile(t, 64<<30, 0, offset), newLimits(2<<30, 100))
			for _, process := range []string{"first", "second"} { // the first has stored the size of a context
				load := func(mib, want int) {
					t.Helper()
					p := startProgram(t, withEnvironment(c.withDriver(c.command("proc"), driver), "STANDIN_MODULE_MIB", fmt.Sprint(mib)))
					p.must(0, "ctx 0")
					p.want(want, 1, "module")
					used, _ := c.deviceUsage(0)
					if charged := c.used(0); charged != used {
						t.Errorf("driver %q, PIDs + %d, %s process, %d MiB: the device has %d bytes, the usage file %d", driver, offset, process, mib, used, charged)
					}
					p.end()
				}
				load(900, 0)
				load(1500, 0)
				load(2500, outOfMemory)
			}
		}
	}
}

// Containers that start at the same time, with NVML in another PID namespace, each find
// their own PID and the size of a context, and get their limits.
func TestContainersThatStartAtOnce(t *testing.T) {
	device := newMachineFile(t, 64<<30, 2, 100000)
	containers := []*container{newContainer(t, device, newLimits(1<<30, 30)), newContainer(t, device, newLimits(1<<30, 70))}
	programs := []*program{containers[0].startSlow(), containers[1].startSlow()}
	var wg sync.WaitGroup
	for _, p := range programs {
		wg.Go(func() { p.must(0, "ctx 0") })
	}
	wg.Wait()
	for i, c := range containers {
		b := c.readAll()
		if want := uint32(programs[i].cmd.Process.Pid + 100000); b.Slot[0].NVMLPID != want || b.Device[0].ContextBytes != ctxBytes {
			t.Errorf("container %d: process is %d for NVML and its context has %d bytes, want %d and %d", i, b.Slot[0].NVMLPID, b.Device[0].ContextBytes, want, ctxBytes)
		}
	}
	got := make([]float64, 2)
	for i, p := range programs {
		wg.Go(func() { got[i] = float64(p.must(1, "busy kernel %d %d", kernel, horizon)) / 10000 })
	}
	wg.Wait()
	wantWithin(t, got[0], 30)
	wantWithin(t, got[1], 70)
}

// Allocations of another container during a context's creation are not charged to the
// context.
func TestConcurrentAllocationDuringContextMeasurement(t *testing.T) {
	device := newMachineFile(t, 64<<30, 0, 100000)
	neighbour := newContainer(t, device, newLimits(8<<30, 100)).start("proc")
	neighbour.must(0, "ctx 0")
	c := newContainer(t, device, newLimits(1<<30, 100))
	p := c.startSlow()
	done := make(chan bool)
	go func() { p.must(0, "ctx 0"); close(done) }()
	for {
		select {
		case <-done:
			if got := c.readAll().Device[0].ContextBytes; got != ctxBytes || c.used(0) != ctxBytes {
				t.Errorf("a context has %d bytes, %d are used; want %d", got, c.used(0), ctxBytes)
			}
			return
		case <-time.After(5 * time.Millisecond): // the other container allocates at any time
			neighbour.must(1, "alloc %d", mib)
		}
	}
}

// A container that never releases the host lock delays the first context of another one, and
// none of the later ones, also not those of other processes.
func TestHostLockTimesOutOncePerContainer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three seconds")
	}
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 50)) // a share of cores makes each context wait
	f, err := os.Open(c.device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	createContext := func(want uint64) {
		t.Helper()
		p := c.start("proc")
		defer p.end()
		p.must(0, "ctx 0")
		if got := c.used(0); got != ctxBytes {
			t.Errorf("got %d bytes, want %d", got, ctxBytes)
		}
		if got := c.readAll().Header.HostLockMissed; got != want {
			t.Errorf("the usage file says %d of the missed lock, want %d", got, want)
		}
	}
	createContext(1)
	quickest := time.Hour
	for range 3 { // on a busy machine one may take long
		began := time.Now()
		createContext(1)
		quickest = min(quickest, time.Since(began))
	}
	if quickest >= 3*time.Second {
		t.Errorf("of three more contexts, each has waited: the quickest took %v", quickest)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	createContext(0)
}
