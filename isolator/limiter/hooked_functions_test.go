package limiter

import (
	"path/filepath"
	"strings"
	"testing"
)

// Each function family allocates the expected share of 256 MiB next to the context,
// according to the device itself, and frees it.
func TestEachFunctionFamilyIsCounted(t *testing.T) {
	families := []struct {
		name        string
		take        []string // a pool uses slot 0, the other handles slot 1
		bytes       uint64
		give        []string
		tooMuch     string // rejected while the memory is allocated
		afterGiving uint64
		since       string // the first of the drivers that has the functions; "": all
	}{
		{name: "alloc", take: []string{"alloc 104857600"}, bytes: 100 * mib, give: []string{"free 1"}, tooMuch: "alloc 163577857"},
		{name: "pitch", take: []string{"pitch 1000 1024"}, bytes: mib, give: []string{"free 1"}, tooMuch: "pitch 1000 400000"},
		{name: "managed", take: []string{"managed 104857600"}, bytes: 100 * mib, give: []string{"free 1"}, tooMuch: "managed 163577857"},
		{name: "async", take: []string{"async 1048576"}, bytes: 32 * mib, give: []string{"freeasync 1", "sync"}, tooMuch: "async 268435456"},
		{name: "async of a thread's stream", take: []string{"async_ptsz 1048576"}, bytes: 32 * mib,
			give: []string{"freeasync 1", "sync"}, tooMuch: "async_ptsz 268435456"},
		{name: "async, freed at once", take: []string{"async 1048576"}, bytes: 32 * mib, give: []string{"free 1"}, tooMuch: "alloc 234881025", afterGiving: 32 * mib},
		{name: "pool", take: []string{"pool", "poolalloc 0 40000000"}, bytes: 64 * mib, give: []string{"freeasync 1", "sync"}, tooMuch: "poolalloc 0 268435456"},
		{name: "pool that keeps", take: []string{"pool", "threshold 0 1073741824", "poolalloc 0 40000000"}, bytes: 64 * mib,
			give: []string{"freeasync 1", "sync"}, tooMuch: "alloc 201326593", afterGiving: 64 * mib},
		{name: "pool that is trimmed", take: []string{"pool", "threshold 0 1073741824", "poolalloc 0 40000000"}, bytes: 64 * mib,
			give: []string{"freeasync 1", "trim 0 0"}, tooMuch: "alloc 201326593"},
		{name: "pool that ends", take: []string{"pool", "threshold 0 1073741824", "poolalloc 0 40000000"}, bytes: 64 * mib,
			give: []string{"freeasync 1", "pooldestroy 0"}, tooMuch: "alloc 201326593"},
		{name: "handle", take: []string{"create 104857600"}, bytes: 100 * mib, give: []string{"release 1"}, tooMuch: "create 163577857"},
		{name: "handle, released while mapped", take: []string{"create 104857600", "map 1 4294967296 104857600", "release 1"},
			bytes: 100 * mib, give: []string{"unmap 4294967296 104857600"}, tooMuch: "create 163577857"},
		{name: "handle, retained",
			take:  []string{"create 104857600", "map 1 4294967296 104857600", "rehandle 4294967296", "unmap 4294967296 104857600", "release 1"},
			bytes: 100 * mib, give: []string{"release 1"}, tooMuch: "create 163577857"},
		{name: "handle, mapped twice",
			take:  []string{"create 104857600", "map 1 4294967296 104857600", "map 1 4399824896 104857600", "release 1"},
			bytes: 100 * mib, give: []string{"unmap 4294967296 209715200"}, tooMuch: "create 163577857"},
		{name: "handle, bound", since: "535", take: []string{"create 104857600", "bind 1 4096", "release 1"}, bytes: 100 * mib,
			give: []string{"unbind 4096"}, tooMuch: "create 163577857"},
		{name: "handle, bound by its address", since: "535",
			take:  []string{"create 104857600", "map 1 4294967296 104857600", "bindaddress 4294967296 4096", "release 1", "unmap 4294967296 104857600"},
			bytes: 100 * mib, give: []string{"unbind 4096"}, tooMuch: "create 163577857"},
		{name: "array", take: []string{"array 100 100 0 0"}, bytes: 196608, give: []string{"arraydestroy 1"}, tooMuch: "array 16384 16384 0 0"},
		{name: "array of a line", take: []string{"array 10000 0 0 0"}, bytes: 196608, give: []string{"arraydestroy 1"}, tooMuch: "array 16777300 0 0 0"},
		{name: "array of three dimensions", take: []string{"array 100 100 10 0"}, bytes: 1703936, give: []string{"arraydestroy 1"}, tooMuch: "array 1024 1024 64 0"},
		{name: "mipmap", take: []string{"array 1024 1024 0 3"}, bytes: 21 * mib, give: []string{"mipmapdestroy 1"}, tooMuch: "array 16384 16384 0 2"},
		{name: "module", take: []string{"module"}, bytes: 4 * mib, give: []string{"unload 1"}, tooMuch: "alloc 264241153"},
	}
	for _, d := range []struct {
		driver, how string
	}{
		{"", "proc"}, {"", "dlsym"}, {"", "dlvsym"}, {"", "link"}, {"470", "proc"}, {"470", "dlsym"}, {"470", "link"}, {"535", "proc"}, {"550", "proc"},
	} {
		t.Run(strings.TrimSuffix("by "+d.how+" of driver "+d.driver, " of driver "), func(t *testing.T) {
			t.Parallel() // the test and its many programs mostly wait for each other
			c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib+ctxBytes, 100))
			for _, f := range families {
				if d.driver != "" && d.driver < f.since {
					continue
				}
				t.Run(f.name, func(t *testing.T) {
					p := startProgram(t, c.withDriver(c.command(d.how), d.driver))
					defer p.end()
					p.t = t
					p.must(9, "ctx 0")
					check := func(when string, want uint64) {
						t.Helper()
						recorded := c.used(0)
						own, _ := c.deviceUsage(0)
						free := p.must(8, "info")
						if recorded != want || own != want || free != 256*mib+ctxBytes-want {
							t.Errorf("%s: the usage file has %d, the device %d, the program sees %d free; want %d used", when, recorded, own, free, want)
						}
					}
					check("before", ctxBytes)
					for _, line := range f.take {
						slot := 1
						if line == "pool" {
							slot = 0
						}
						p.must(slot, "%s", line)
					}
					check("taken", ctxBytes+f.bytes)
					p.want(outOfMemory, 6, "%s", f.tooMuch)
					check("refused", ctxBytes+f.bytes)
					for _, line := range f.give {
						p.must(7, "%s", line)
					}
					check("given back", ctxBytes+f.afterGiving)
				})
			}
		})
	}
}

// A program that asks a lookup for the C library's own lookups gets functions that find the
// limiter's functions, not the driver's.
func TestLookupsReturnTheLimitersLookups(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	for _, how := range []string{"dlsym-by-dlsym", "dlsym-by-dlvsym", "dlvsym-by-dlsym"} {
		t.Run(how, func(t *testing.T) {
			p := c.start(how)
			defer p.end()
			p.t = t
			p.must(1, "ctx 0")
			p.want(outOfMemory, 2, "alloc %d", 256*mib)
		})
	}
}

// A program finds no function of the driver before it loads the driver. A version that the limiter does not know is answered as the
// driver answers for a function that it does not have.
func TestAbsentFunctionsAreAnsweredAsByDriver(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	cmd := c.command("proc")
	cmd.Path, cmd.Args = filepath.Join(c.built, "lookup_errors"), []string{"lookup_errors"}
	out, err := cmd.Output()
	want := `without libraries: cuMemAlloc_v2 not found not found
without libraries: nvmlDeviceGetMemoryInfo not found not found
with libraries: cuMemAlloc_v2 found found
with libraries: nvmlDeviceGetMemoryInfo found found
first form: 500, untouched
second form: 0, status 1, NULL
`
	if err != nil || string(out) != want {
		t.Errorf("got %v, %s", err, out)
	}
}

// Destroying a context releases its own memory and the allocations in it.
func TestDestroyedContextsReleaseMemory(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 100))
	for _, tt := range []struct{ begin, end string }{{"ctx 0", "ctxdestroy 1"}, {"retain 0", "unretain 0"}} {
		p := c.start("proc")
		p.must(1, "%s", tt.begin)
		p.must(2, "alloc %d", 100*mib)
		p.must(3, "array 100 100 0 0")
		p.must(4, "%s", tt.end)
		if got := c.used(0); got != 0 {
			t.Errorf("%s: got %d bytes in the usage file, want 0", tt.end, got)
		}
		p.end()
	}
}

// A green context counts next to the primary context that it keeps, by all ways to create and end them.
func TestGreenContextsCount(t *testing.T) {
	const green = 16 * mib
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(3*ctxBytes, 100))
	for _, how := range []string{"proc", "dlsym", "link"} {
		p := c.start(how)
		check := func(when string, want uint64) {
			t.Helper()
			if recorded, own := c.used(0), usageOfDeviceZero(c); recorded != want || own != want {
				t.Errorf("by %s, %s: the usage file has %d, the device %d; want %d", how, when, recorded, own, want)
			}
		}
		p.must(1, "green 0")
		check("the first", ctxBytes+green)
		p.must(2, "retain 0")
		p.must(3, "green 0")
		check("a second, and the primary one retained", ctxBytes+2*green)
		p.must(4, "greendestroy 1")
		p.must(4, "greendestroy 3")
		check("both ended", ctxBytes)
		p.must(1, "green 0")
		p.must(4, "unretain 0")
		check("the primary one released", ctxBytes+green)
		p.must(4, "greendestroy 1")
		check("all ended", 0)
		p.must(1, "ctx 0")
		p.must(2, "ctx 0")
		p.want(outOfMemory, 3, "green 0")
		check("one that does not fit, after two contexts", 2*ctxBytes)
		p.end()
	}
}

// A context over the limit is rejected before it is created.
func TestContextsCountAgainstTheLimit(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(3*ctxBytes-1, 100))
	p := c.start("proc")
	p.must(1, "ctx 0")
	p.must(2, "ctx 0")
	p.want(outOfMemory, 3, "ctx 0")
	if used, most := c.deviceUsage(0); used != 2*ctxBytes || most != 2*ctxBytes {
		t.Errorf("device has %d, had %d; want %d", used, most, 2*ctxBytes)
	}
}

// If NVML uses another PID namespace, the memory of the whole device is compared.
func TestContextIsMeasuredAcrossPIDNamespaces(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 100000), newLimits(512*mib, 100))
	p := c.start("proc")
	p.must(1, "ctx 0")
	if got := c.used(0); got != ctxBytes {
		t.Errorf("got %d, want %d", got, ctxBytes)
	}
}

func TestOversubscription(t *testing.T) {
	for _, over := range []bool{true, false} {
		l := newLimits(512*mib, 100)
		l.Devices[0].Oversubscribe = over
		c := newContainer(t, newMachineFile(t, 256*mib, 0, 0), l)
		p := c.start("proc")
		p.must(0, "ctx 0")
		rc, _ := p.do(1, "alloc %d", 300*mib)
		if want := map[bool]int{true: 0, false: outOfMemory}[over]; rc != want {
			t.Errorf("oversubscribe=%v: got %d, want %d", over, rc, want)
		}
		p.want(outOfMemory, 2, "alloc %d", 449*mib)
	}
}

// A handle that is mapped into a sparse array counts until the process ends, because its
// mappings are not tracked.
func TestHandlesInArraysCount(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "create %d", 100*mib)
	p.must(2, "maparray 1")
	p.must(3, "release 1")
	if recorded, own := c.used(0), usageOfDeviceZero(c); recorded != ctxBytes+100*mib || own != recorded {
		t.Errorf("the usage file has %d, the device %d; want %d", recorded, own, ctxBytes+100*mib)
	}
}

func usageOfDeviceZero(c *container) uint64 { used, _ := c.deviceUsage(0); return used }

// An import keeps memory that its exporter has released. It is charged when it is mapped,
// and rejected over the limit.
func TestImportsCount(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib+ctxBytes, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "create %d", 100*mib)
	p.must(2, "import 1")
	p.must(3, "release 1")
	p.must(4, "map 2 4294967296 %d", 100*mib)
	if recorded, own := c.used(0), usageOfDeviceZero(c); recorded != ctxBytes+100*mib || own != recorded {
		t.Errorf("the usage file has %d, the device %d; want %d", recorded, own, ctxBytes+100*mib)
	}
	p.must(5, "release 2")
	p.want(outOfMemory, 6, "alloc %d", 157*mib)
	p.must(7, "unmap 4294967296 %d", 100*mib)
	if recorded, own := c.used(0), usageOfDeviceZero(c); recorded != ctxBytes || own != recorded {
		t.Errorf("unmapped: the usage file has %d, the device %d; want %d", recorded, own, ctxBytes)
	}
	p.must(1, "create %d", 100*mib)
	p.must(2, "import 1")
	p.must(8, "alloc %d", 100*mib)
	p.want(outOfMemory, 4, "map 2 4294967296 %d", 100*mib)
}

// Stream-ordered memory is charged to the stream's device, not the current one.
func TestStreamsOfAnotherDevice(t *testing.T) {
	l := newLimits(512*mib, 100)
	l.Devices = append(l.Devices, DeviceLimit{UUID: deviceTwo, MemoryBytes: 128 * mib, CoresPercent: 100})
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), l)
	p := c.start("proc")
	p.must(1, "ctx 1")
	p.must(0, "ctx 0")
	p.must(2, "asyncon 1 %d", 32*mib)
	if first, second := c.used(0), c.used(1); first != ctxBytes || second != ctxBytes+32*mib {
		t.Errorf("the usage file has %d and %d, want %d and %d", first, second, ctxBytes, ctxBytes+32*mib)
	}
	p.want(outOfMemory, 3, "asyncon 1 %d", 64*mib)
	p.must(3, "async %d", 64*mib)
}

// The malloc heap is charged completely and released with its context.
func TestHeapCounts(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "heap %d", 100*mib)
	p.want(outOfMemory, 1, "heap %d", 200*mib)
	p.must(1, "heap %d", 50*mib)
	if recorded, own := c.used(0), usageOfDeviceZero(c); recorded != ctxBytes+50*mib || own != recorded {
		t.Errorf("the usage file has %d, the device %d; want %d", recorded, own, ctxBytes+50*mib)
	}
	p.must(2, "ctxdestroy 0")
	if got := c.used(0); got != 0 {
		t.Errorf("without the context: got %d, want 0", got)
	}
}

// The number of pools is not limited.
func TestManyPools(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 16<<30, 0, 0), newLimits(8<<30, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	for i := range 150 {
		p.must(1+i, "pool x")
		p.must(200, "poolalloc %d %d", 1+i, mib)
	}
	if recorded, own := c.used(0), usageOfDeviceZero(c); recorded != ctxBytes+150*32*mib || own != recorded {
		t.Errorf("the usage file has %d, the device %d; want %d", recorded, own, ctxBytes+150*32*mib)
	}
}

// CUDA and NVML both report the limit as total memory. The device is identified by UUID,
// not by number.
func TestReportedMemoryIsTheLimit(t *testing.T) {
	l := newLimits(200*mib, 100)
	l.Devices = append(l.Devices, DeviceLimit{UUID: deviceTwo, MemoryBytes: 100 * mib, CoresPercent: 100})
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), l)
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "alloc %d", 10*mib)
	for line, want := range map[string]uint64{"total 0": 200 * mib, "total 1": 100 * mib, "info": 126 * mib, "nvml": 74 * mib} {
		if got := p.must(2, "%s", line); got != want {
			t.Errorf("%s: got %d, want %d", line, got, want)
		}
	}
	p.must(3, "ctx 1")
	p.want(outOfMemory, 4, "alloc %d", 37*mib)
	p.must(4, "alloc %d", 36*mib)
}

func TestDeviceWithoutLimitIsRejected(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 100))
	p := c.start("proc")
	p.want(outOfMemory, 1, "ctx 1")
	if _, most := c.deviceUsage(1); most != 0 {
		t.Errorf("device 1 had %d bytes taken, want none", most)
	}
	p.want(0, 1, "total 1")
	p.want(outOfMemory, 1, "ctx 1")
	if said := p.end(); strings.Count(said, "does not list the device of an allocation") != 1 {
		t.Errorf("got %q", said)
	}
}

// Unknown versions of a hooked function are not returned, and the 32-bit functions do not
// circumvent the limit.
func TestUnknownFunctionVersionsAreNotReturned(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(0, "version 99000")
	p.want(-1, 1, "alloc 1000")
	p.must(0, "version 11040")
	p.must(2, "ctx3 0")
	p.must(2, "ctxdestroy 2")
	p.must(0, "version 12050")
	p.must(2, "ctx4 0")
	p.must(2, "ctxdestroy 2")
	p.must(0, "ctx4 0")
	p.must(0, "version 11030")
	p.must(1, "alloc 1000")
	if said := p.end(); !strings.Contains(said, "refuse cuMemAlloc") {
		t.Errorf("got %q", said)
	}
	for _, how := range []string{"dlsym", "dlvsym", "link"} {
		p = c.start(how)
		p.want(801, 1, "oldalloc 1000")
		p.must(0, "ctx 0")
		p.want(500, 1, "alloc9 1000")
		if said := p.end(); !strings.Contains(said, "refuse cuMemAlloc_v9") {
			t.Errorf("by %s: got %q", how, said)
		}
	}
}
