package limiter

import "testing"

// wantUsed checks that the usage file and the device itself have that many bytes next to the
// context.
func wantUsed(t *testing.T, c *container, when string, bytes uint64) {
	t.Helper()
	if recorded, own, want := c.used(0), usageOfDeviceZero(c), ctxBytes+bytes; recorded != want || own != want {
		t.Errorf("%s: the usage file has %d, the device %d; want %d", when, recorded, own, want)
	}
}

// startWithHandle starts a program with a context and a handle in slot 1. The limit is 256 MiB
// next to the context.
func startWithHandle(t *testing.T, bytes uint64) (*container, *program) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib+ctxBytes, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "create %d", bytes)
	return c, p
}

// Another thread may get a handle, or map memory at an address, as soon as the driver has freed
// it: before the call that freed it returns.
func TestReusedHandlesAndAddressesStayCharged(t *testing.T) {
	t.Run("handle", func(t *testing.T) {
		c, p := startWithHandle(t, 10*mib)
		p.must(2, "after create %d", 100*mib)
		p.must(0, "release 1")
		p.must(0, "planned 0")
		wantUsed(t, c, "created by another thread", 100*mib)
		p.must(0, "release 2")
		wantUsed(t, c, "released", 0)
	})
	t.Run("address", func(t *testing.T) {
		c, p := startWithHandle(t, 10*mib)
		p.must(0, "map 1 4294967296 %d", 10*mib)
		p.must(0, "release 1")
		p.must(2, "create %d", 100*mib)
		p.must(0, "after map 2 4294967296 %d", 100*mib)
		p.must(0, "unmap 4294967296 %d", 10*mib)
		p.must(0, "planned 0")
		p.must(0, "release 2")
		wantUsed(t, c, "mapped by another thread", 100*mib)
		p.must(0, "unmap 4294967296 %d", 100*mib)
		wantUsed(t, c, "unmapped", 0)
	})
	t.Run("binding", func(t *testing.T) {
		c, p := startWithHandle(t, 10*mib)
		p.must(0, "bind 1 4096")
		p.must(0, "release 1")
		p.must(2, "create %d", 100*mib)
		p.must(0, "after bind 2 4096")
		p.must(0, "unbind 4096")
		p.must(0, "planned 0")
		p.must(0, "release 2")
		wantUsed(t, c, "bound by another thread", 100*mib)
		p.must(0, "unbind 4096")
		wantUsed(t, c, "unbound", 0)
	})
}

// Two threads end the last two uses of a handle. Its memory stays charged until both calls of
// the driver have returned: the one that returns first need not be the one that frees it.
func TestHandleIsChargedUntilItsLastUseHasEnded(t *testing.T) {
	const release, unmap = "release 1", "unmap 4294967296 209715200"
	for name, order := range map[string][2]string{"unmapped last": {release, unmap}, "released last": {unmap, release}} {
		t.Run(name, func(t *testing.T) {
			c, p := startWithHandle(t, 200*mib)
			p.must(0, "map 1 4294967296 %d", 200*mib)
			p.must(0, "before %s", order[0])
			p.must(2, "before alloc %d", 200*mib)
			p.must(0, "%s", order[1])
			p.must(0, "planned 0")
			p.want(outOfMemory, 0, "planned 1")
			wantUsed(t, c, "afterwards", 0)
			p.must(2, "alloc %d", 256*mib)
		})
	}
}

// If the driver refuses to end a use of a handle, its memory stays charged, and the use can
// be ended later.
func TestRefusedReleasesStayCharged(t *testing.T) {
	c, p := startWithHandle(t, 100*mib)
	p.must(0, "map 1 4294967296 %d", 100*mib)
	p.must(0, "release 1")
	p.want(invalidValue, 0, "release 1")
	wantUsed(t, c, "released twice", 100*mib)
	p.want(invalidValue, 0, "unmap 4294967296 %d", 101*mib)
	wantUsed(t, c, "more unmapped than is mapped", 100*mib)
	p.want(invalidValue, 0, "unbind 4096")
	p.must(0, "unmap 4294967296 %d", 100*mib)
	wantUsed(t, c, "unmapped", 0)
}
