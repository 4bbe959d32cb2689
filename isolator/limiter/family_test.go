package limiter

import (
	"strings"
	"testing"
)

// Each family takes what is named of a share of 256 MiB beside the context,
// as the device itself has it, and gives it back.
func TestEachFamilyIsCounted(t *testing.T) {
	families := []struct {
		name        string
		take        []string // a pool gets slot 0, the rest slot 1
		bytes       uint64
		give        []string
		tooMuch     string // refused while taken
		afterGiving uint64
	}{
		{name: "alloc", take: []string{"alloc 104857600"}, bytes: 100 * mib, give: []string{"free 1"}, tooMuch: "alloc 163577857"},
		{name: "pitch", take: []string{"pitch 1000 1024"}, bytes: mib, give: []string{"free 1"}, tooMuch: "pitch 1000 400000"},
		{name: "managed", take: []string{"managed 104857600"}, bytes: 100 * mib, give: []string{"free 1"}, tooMuch: "managed 163577857"},
		{name: "async", take: []string{"async 1048576"}, bytes: 32 * mib, give: []string{"freeasync 1", "sync"}, tooMuch: "async 268435456"},
		{name: "async of a thread's stream", take: []string{"async_ptsz 1048576"}, bytes: 32 * mib, give: []string{"freeasync 1", "sync"}, tooMuch: "async_ptsz 268435456"},
		{name: "async, freed at once", take: []string{"async 1048576"}, bytes: 32 * mib, give: []string{"free 1"}, tooMuch: "alloc 234881025", afterGiving: 32 * mib},
		{name: "pool", take: []string{"pool", "poolalloc 0 40000000"}, bytes: 64 * mib, give: []string{"freeasync 1", "sync"}, tooMuch: "poolalloc 0 268435456"},
		{name: "pool that keeps", take: []string{"pool", "threshold 0 1073741824", "poolalloc 0 40000000"}, bytes: 64 * mib, give: []string{"freeasync 1", "sync"}, tooMuch: "alloc 201326593", afterGiving: 64 * mib},
		{name: "pool that is trimmed", take: []string{"pool", "threshold 0 1073741824", "poolalloc 0 40000000"}, bytes: 64 * mib, give: []string{"freeasync 1", "trim 0 0"}, tooMuch: "alloc 201326593"},
		{name: "pool that ends", take: []string{"pool", "threshold 0 1073741824", "poolalloc 0 40000000"}, bytes: 64 * mib, give: []string{"freeasync 1", "pooldestroy 0"}, tooMuch: "alloc 201326593"},
		{name: "handle", take: []string{"create 104857600"}, bytes: 100 * mib, give: []string{"release 1"}, tooMuch: "create 163577857"},
		{name: "handle, released while mapped", take: []string{"create 104857600", "map 1 4294967296 104857600", "release 1"}, bytes: 100 * mib, give: []string{"unmap 4294967296 104857600"}, tooMuch: "create 163577857"},
		{name: "handle, retained", take: []string{"create 104857600", "map 1 4294967296 104857600", "rehandle 4294967296", "unmap 4294967296 104857600", "release 1"}, bytes: 100 * mib, give: []string{"release 1"}, tooMuch: "create 163577857"},
		{name: "handle, mapped twice", take: []string{"create 104857600", "map 1 4294967296 104857600", "map 1 4399824896 104857600", "release 1"}, bytes: 100 * mib, give: []string{"unmap 4294967296 209715200"}, tooMuch: "create 163577857"},
		{name: "array", take: []string{"array 100 100 0 0"}, bytes: 196608, give: []string{"arraydestroy 1"}, tooMuch: "array 16384 16384 0 0"},
		{name: "array of three dimensions", take: []string{"array 100 100 10 0"}, bytes: 1638400, give: []string{"arraydestroy 1"}, tooMuch: "array 1024 1024 64 0"},
		{name: "mipmap", take: []string{"array 1024 1024 0 3"}, bytes: 21 * mib, give: []string{"mipmapdestroy 1"}, tooMuch: "array 16384 16384 0 2"},
		{name: "module", take: []string{"module"}, bytes: 4 * mib, give: []string{"unload 1"}, tooMuch: "alloc 264241153"},
	}
	device := machine(t, 1024*mib, 0, 0)
	c := contain(t, device, share(256*mib+ctxBytes, 100))
	for _, how := range []string{"proc", "dlsym", "dlvsym", "link"} {
		for _, f := range families {
			t.Run(f.name+" by "+how, func(t *testing.T) {
				p := c.start(how)
				defer p.end()
				p.t = t
				p.must(9, "ctx 0")
				check := func(when string, want uint64) {
					t.Helper()
					books := c.used(0)
					own, _ := c.own(0)
					free := p.must(8, "info")
					if books != want || own != want || free != 256*mib+ctxBytes-want {
						t.Errorf("%s: books have %d, the device %d, the program sees %d free; want %d used", when, books, own, free, want)
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
	}
}

// Graphs' memory is charged when its node is made or captured; the stand-in's
// graphs take none.
func TestGraphMemoryIsCharged(t *testing.T) {
	c := contain(t, machine(t, 1024*mib, 0, 0), share(256*mib+ctxBytes, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "graphalloc %d", 200*mib)
	p.must(2, "capture 1")
	p.must(3, "async %d", 50*mib)
	p.want(outOfMemory, 4, "async %d", 7*mib)
	p.must(2, "capture 0")
	p.want(outOfMemory, 4, "graphalloc %d", 7*mib)
	p.must(5, "graphtrim 0")
	if got := c.used(0); got != ctxBytes {
		t.Errorf("after the trim: got %d, want %d", got, ctxBytes)
	}
}

// The end of a context gives back what it took and what was allocated in it.
func TestContextsGiveBackWhatEndsWithThem(t *testing.T) {
	c := contain(t, machine(t, 1024*mib, 0, 0), share(512*mib, 100))
	for _, tt := range []struct{ begin, end string }{{"ctx 0", "ctxdestroy 1"}, {"retain 0", "unretain 0"}} {
		p := c.start("proc")
		p.must(1, "%s", tt.begin)
		p.must(2, "alloc %d", 100*mib)
		p.must(3, "array 100 100 0 0")
		p.must(4, "%s", tt.end)
		if got := c.used(0); got != 0 {
			t.Errorf("%s: got %d bytes in the books, want 0", tt.end, got)
		}
		p.end()
	}
}

// A context that is not to have is refused, not made and regretted.
func TestContextsCountAgainstTheLimit(t *testing.T) {
	c := contain(t, machine(t, 1024*mib, 0, 0), share(3*ctxBytes-1, 100))
	p := c.start("proc")
	p.must(1, "ctx 0")
	p.must(2, "ctx 0")
	p.want(outOfMemory, 3, "ctx 0")
	if used, most := c.own(0); used != 2*ctxBytes || most != 2*ctxBytes {
		t.Errorf("device has %d, had %d; want %d", used, most, 2*ctxBytes)
	}
}

// Where NVML counts in another pid namespace the device's own figure is taken.
func TestContextIsMeasuredWhereNVMLKnowsOtherNumbers(t *testing.T) {
	c := contain(t, machine(t, 1024*mib, 0, 100000), share(512*mib, 100))
	p := c.start("proc")
	p.must(1, "ctx 0")
	if got := c.used(0); got != ctxBytes {
		t.Errorf("got %d, want %d", got, ctxBytes)
	}
}

func TestOversubscription(t *testing.T) {
	for _, over := range []bool{true, false} {
		l := share(512*mib, 100)
		l.Devices[0].Oversubscribe = over
		c := contain(t, machine(t, 256*mib, 0, 0), l)
		p := c.start("proc")
		p.must(0, "ctx 0")
		rc, _ := p.do(1, "alloc %d", 300*mib)
		if want := map[bool]int{true: 0, false: outOfMemory}[over]; rc != want {
			t.Errorf("oversubscribe=%v: got %d, want %d", over, rc, want)
		}
		p.want(outOfMemory, 2, "alloc %d", 449*mib)
	}
}

// The view is the share: total the limit, and the same by CUDA and NVML, for
// the device of that UUID whatever its number.
func TestView(t *testing.T) {
	l := share(200*mib, 100)
	l.Devices = append(l.Devices, Device{UUID: deviceTwo, MemoryBytes: 100 * mib, CoresPercent: 100})
	c := contain(t, machine(t, 1024*mib, 0, 0), l)
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

func TestDeviceThatIsNotNamedIsRefused(t *testing.T) {
	c := contain(t, machine(t, 1024*mib, 0, 0), share(512*mib, 100))
	p := c.start("proc")
	p.want(outOfMemory, 1, "ctx 1")
	if _, most := c.own(1); most != 0 {
		t.Errorf("device 1 had %d bytes taken, want none", most)
	}
	p.want(0, 1, "total 1")
	if said := p.end(); !strings.Contains(said, "does not name this device") {
		t.Errorf("got %q", said)
	}
}

// A version of a hooked function that the table does not know is not handed
// out; nor do the 32-bit forms lead past the limit.
func TestOtherVersions(t *testing.T) {
	c := contain(t, machine(t, 1024*mib, 0, 0), share(256*mib, 100))
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
	}
}
