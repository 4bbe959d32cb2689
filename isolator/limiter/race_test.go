package limiter

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// newPrimedContainer returns a container whose first context has been measured, so that
// later contexts do not wait for a measurement.
func newPrimedContainer(t *testing.T, limit uint64) *container {
	c := newContainer(t, newMachineFile(t, 16<<30, 0, 0), newLimits(limit, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.end()
	return c
}

// wantAllAvailable checks that nothing is leaked: one process can allocate exactly the
// whole limit.
func wantAllAvailable(t *testing.T, c *container) {
	t.Helper()
	p := c.start("proc")
	p.must(0, "ctx 0")
	rest := c.limits.Devices[0].MemoryBytes - ctxBytes
	if free := p.must(1, "info"); free != rest {
		t.Errorf("free is %d, want %d", free, rest)
	}
	p.must(1, "alloc %d", rest)
	p.want(outOfMemory, 2, "alloc 1")
	p.must(1, "free 1")
	p.end()
}

// wantLimitKept checks the fake device's maximum: it never exceeded the limit, and
// allocations were rejected.
func wantLimitKept(t *testing.T, c *container) {
	t.Helper()
	limit := c.limits.Devices[0].MemoryBytes
	_, most := c.deviceUsage(0)
	if most > limit {
		t.Errorf("the device had %d bytes taken, the limit is %d", most, limit)
	}
	refusals := c.refusals()
	if refusals == 0 {
		t.Error("no allocation was refused: the limit was never felt")
	}
	t.Logf("most %d of %d, %d refusals", most, limit, refusals)
}

// refusals returns the number of rejected allocations.
func (c *container) refusals() uint64 {
	c.t.Helper()
	uses, err := ReadUsageFile(c.path("books"), c.limits)
	if err != nil {
		c.t.Fatal(err)
	}
	return uses[0].Refusals
}

// startMany starts programs and creates a context in each.
func (c *container) startMany(n int) []*program {
	c.t.Helper()
	programs := make([]*program, n)
	for i := range programs {
		programs[i] = c.start([]string{"proc", "dlsym"}[i%2])
		programs[i].must(0, "ctx 0")
	}
	return programs
}

func TestSixtyFourProcessesNeverExceedTheLimit(t *testing.T) {
	const processes = 64
	limit := uint64(processes*ctxBytes + 16*mib)
	c := newPrimedContainer(t, limit)
	var wg sync.WaitGroup
	for i, p := range c.startMany(processes) {
		wg.Go(func() { p.must(1, "churn %d %d %d", i+1, 200, 4*mib) })
		defer p.end()
	}
	wg.Wait()
	wantLimitKept(t, c)
	if got, want := c.used(0), uint64(processes*ctxBytes); got != want {
		t.Errorf("after the churn: got %d bytes, want the contexts' %d", got, want)
	}
}

func TestRacingAllocationsLoseNoBytes(t *testing.T) {
	c := newPrimedContainer(t, 1024*mib)
	var wg sync.WaitGroup
	for i, p := range c.startMany(12) {
		wg.Go(func() {
			p.must(1, "churn %d %d %d", i+100, 400, 64*mib)
			p.end()
		})
	}
	wg.Wait()
	wantLimitKept(t, c)
	wantAllAvailable(t, c)
}

// A process that is killed at any time releases its memory, including an allocation in
// progress.
func TestKilledProcessesReleaseMemory(t *testing.T) {
	c := newPrimedContainer(t, 1024*mib)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1))
	// On a busy machine programs may be killed before they have allocated much.
	for round := 0; round == 0 || c.refusals() == 0 && round < 20; round++ {
		var wg sync.WaitGroup
		for i := range 10 {
			cmds := make([]time.Duration, 6)
			for k := range cmds {
				cmds[k] = time.Duration(chance.IntN(60*(round+1))) * time.Millisecond
			}
			wg.Go(func() {
				for k, after := range cmds {
					c.killAfter(after, fmt.Sprintf("0 ctx 0\n0 churn %d 1000000 %d\n", i*100+k, 64*mib))
				}
			})
		}
		wg.Wait()
	}
	wantLimitKept(t, c)
	wantAllAvailable(t, c)
}

// killAfter runs a program with endless input and kills it.
func (c *container) killAfter(after time.Duration, input string) {
	cmd := c.command("proc")
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	fmt.Fprint(in, input)
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err == nil {
		c.t.Error("the program ended by itself before it was killed")
	}
}

func TestKilledHolderIsNotCounted(t *testing.T) {
	c := newPrimedContainer(t, 512*mib)
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "alloc %d", 400*mib)
	q := c.start("proc")
	q.want(outOfMemory, 0, "ctx 0")
	p.kill()
	if got := c.used(0); got != 0 {
		t.Errorf("read from outside: got %d, want 0", got)
	}
	q.must(0, "ctx 0")
	q.must(1, "alloc %d", 448*mib)
}

// A forked child starts without memory, has its own slot in the usage file, and does not
// change the parent's.
func TestForkWithoutExec(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 100))
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "alloc %d", 100*mib)
	fmt.Fprintln(p.in, "0 fork x")
	p.must(2, "ctx 0")
	p.must(3, "alloc %d", 200*mib)
	if got, want := c.used(0), uint64(2*ctxBytes+300*mib); got != want {
		t.Errorf("with the child: got %d, want %d", got, want)
	}
	p.want(outOfMemory, 4, "alloc %d", 100*mib)
	p.must(5, "exit x")
	if rc, _ := p.answer(); rc != 0 {
		t.Errorf("the child ended with %d", rc)
	}
	if got, want := c.used(0), uint64(ctxBytes+100*mib); got != want {
		t.Errorf("after the child: got %d, want %d", got, want)
	}
	p.must(6, "alloc %d", 300*mib)
}

// After exec the process holds none of the previous program's memory.
func TestExecReleasesMemory(t *testing.T) {
	c := newPrimedContainer(t, 512*mib)
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "alloc %d", 400*mib)
	p.must(2, "exec x")
	q := c.start("proc")
	for late := time.Now().Add(time.Minute); ; { // the answer comes before the exec
		if rc, _ := q.do(0, "ctx 0"); rc == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatal("the bytes of the replaced program never came back")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// A program that closes all its files also closes the usage file. It is opened again and
// keeps the process's figures.
func TestClosedUsageFileIsReopened(t *testing.T) {
	c := newPrimedContainer(t, 512*mib)
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "alloc %d", 300*mib)
	p.must(2, "closefiles x")
	p.want(outOfMemory, 3, "alloc %d", 200*mib)
	if got, want := c.used(0), uint64(ctxBytes+300*mib); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	p.must(1, "free 1")
	if got := c.used(0); got != ctxBytes {
		t.Errorf("got %d, want %d", got, ctxBytes)
	}
}

// In another PID namespace a PID means another process, and /proc does not show the
// others: file locks show which processes live.
func TestPIDNamespaces(t *testing.T) {
	if out, err := exec.Command("unshare", "-Urpf", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("needs leave to make pid namespaces: %v %s", err, out)
	}
	c := newPrimedContainer(t, 512*mib)
	start := func() *program {
		cmd := c.command("proc")
		inside := strings.Join(cmd.Env, " ") + " exec " + strings.Join(cmd.Args, " ")
		cmd.Args = []string{"unshare", "-Urpf", "--kill-child", "--mount-proc", "sh", "-c", inside}
		path, err := exec.LookPath("unshare")
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path, cmd.Env = path, nil
		return startProgram(t, cmd)
	}
	p, q := start(), start()
	p.must(0, "ctx 0")
	p.must(1, "alloc %d", 300*mib)
	q.must(0, "ctx 0")
	q.want(outOfMemory, 1, "alloc %d", 200*mib)
	p.kill()
	for late := time.Now().Add(time.Minute); c.used(0) != ctxBytes; { // unshare ends before its child
		if time.Now().After(late) {
			t.Fatalf("got %d bytes used, want %d", c.used(0), ctxBytes)
		}
		time.Sleep(2 * time.Millisecond)
	}
	q.must(1, "alloc %d", 448*mib)
}
