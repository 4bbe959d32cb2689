package limiter

import "testing"

// Graph memory is charged when its node is added or captured.
func TestGraphMemoryIsCharged(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib+ctxBytes, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "graph x")
	p.must(2, "graphalloc 1 %d", 200*mib)
	p.must(3, "capture 1")
	p.must(4, "async %d", 50*mib)
	p.want(outOfMemory, 4, "async %d", 7*mib)
	p.must(3, "capture 0")
	p.want(outOfMemory, 2, "graphalloc 1 %d", 7*mib)
	p.must(5, "graphdestroy 3")
	p.must(2, "graphalloc 1 %d", 56*mib)
}

// After a trim a graph allocates its memory again at the next launch. It counts while the
// graph or its executable exists.
func TestGraphMemoryCountsWhileTheGraphLives(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 4096*mib, 0, 0), newLimits(1024*mib, 100))
	p := c.start("proc")
	full := func(when string) {
		t.Helper()
		p.want(outOfMemory, 9, "alloc %d", 100*mib)
		if got := c.used(0); got != ctxBytes+900*mib {
			t.Errorf("%s: the usage file has %d, want %d", when, got, ctxBytes+900*mib)
		}
		if _, most := c.deviceUsage(0); most > 1024*mib {
			t.Errorf("%s: the device had %d bytes taken, the limit is %d", when, most, 1024*mib)
		}
	}
	p.must(0, "ctx 0")
	p.must(1, "graph x")
	p.must(2, "graphalloc 1 %d", 900*mib)
	p.must(3, "graphtrim 0")
	full("trimmed before the launch")
	p.must(4, "instantiate 1")
	p.must(1, "graphdestroy 1")
	full("only instantiated")
	for range 2 {
		p.must(5, "graphlaunch 4")
		p.must(3, "graphtrim 0")
		full("launched and trimmed")
	}
	p.must(5, "graphlaunch 4")
	p.must(4, "execdestroy 4")
	full("destroyed, but kept by the driver")
	p.must(3, "graphtrim 0")
	p.must(9, "alloc %d", 960*mib)
}

// A program that repeatedly captures and destroys graphs does not run out of memory.
func TestRepeatedGraphCapture(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	for range 50 {
		p.must(1, "capture 1")
		p.must(2, "async %d", 100*mib)
		p.must(1, "capture 0")
		p.must(3, "instantiate 1")
		p.must(1, "graphdestroy 1")
		p.must(3, "graphlaunch 3")
		p.must(3, "execdestroy 3")
	}
	p.must(4, "graphtrim 0")
	if got := c.used(0); got != ctxBytes {
		t.Errorf("the usage file has %d, want %d", got, ctxBytes)
	}
}

// A node that the driver refuses is not charged, by whichever function it is added.
func TestRefusedGraphNodesAreNotCharged(t *testing.T) {
	for _, add := range []string{"graphalloc", "graphnode", "graphnode2"} {
		t.Run(add, func(t *testing.T) {
			c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib+ctxBytes, 100))
			p := c.start("dlsym") // by its name, each version can be called
			p.must(0, "ctx 0")
			p.must(1, "graph x")
			p.want(invalidValue, 2, "%s 0 %d", add, 200*mib) // a context is not a graph
			if got := c.used(0); got != ctxBytes {
				t.Errorf("after a refused node the usage file has %d, want %d", got, ctxBytes)
			}
			p.must(2, "%s 1 %d", add, 200*mib)
			if got, want := c.used(0), uint64(ctxBytes+200*mib); got != want {
				t.Errorf("after a node the usage file has %d, want %d", got, want)
			}
		})
	}
}
