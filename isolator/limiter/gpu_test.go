//go:build gpu

package limiter

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Environment variables from scripts/test-gpu.sh: the folder of the programs, the file
// for the results, and the seconds to measure each core share.
const (
	programsVariable = "GPU_TEST_PROGRAMS"
	resultsVariable  = "GPU_TEST_RESULTS"
	secondsVariable  = "GPU_TEST_SECONDS"
)

const (
	piece     = 2 * mib // granularity of the driver's allocations
	processes = 16
)

// testDevice is the GPU or the fake device under test: the first CUDA device.
type testDevice struct {
	programs, kind, cuda, uuid, card string
	// seconds is how long each core share is measured, and settling how long the load
	// runs before that.
	seconds, settling int
	total             uint64
	report            reportTable
}

// isStandIn reports whether the device is fake. Its kernels sleep, and take longer on a
// busy machine, so core shares are not checked.
func (d *testDevice) isStandIn() bool { return d.kind == "standin" }

func requireDevice(t *testing.T) *testDevice {
	t.Helper()
	d := &testDevice{programs: os.Getenv(programsVariable), seconds: 10, settling: 5}
	if d.programs == "" {
		t.Fatalf("%s is not set: run scripts/test-gpu.sh", programsVariable)
	}
	if n, err := strconv.Atoi(os.Getenv(secondsVariable)); err == nil {
		d.seconds = n
	}
	text, err := exec.Command(filepath.Join(d.programs, "real"), "probe").Output()
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 4 {
		t.Skip("needs an NVIDIA GPU: there is no libcuda.so.1 that finds one")
	}
	d.kind, d.cuda, d.uuid, d.card = lines[0], lines[1], lines[2], lines[3]
	if d.isStandIn() {
		d.settling = 0
	}
	p := d.startUnlimited(t)
	p.must(0, "ctx 0")
	d.total = p.must(0, "total 0")
	p.end()
	return d
}

func (d *testDevice) startProgram(t *testing.T, more ...string) *program {
	t.Helper()
	cmd := exec.Command(filepath.Join(d.programs, "real"))
	cmd.Env = append(os.Environ(), more...)
	return startProgram(t, cmd)
}

// startUnlimited starts a program without limits.
func (d *testDevice) startUnlimited(t *testing.T) *program { return d.startProgram(t) }

// limitedContainer is one of the two containers for which a library is built.
type limitedContainer struct {
	*container
	d *testDevice
}

func (d *testDevice) limitContainer(t *testing.T, name string, memory uint64, cores int) *limitedContainer {
	t.Helper()
	dir := filepath.Join("/tmp/mesos-gpu-test", name)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := ContainerLimits{Nonce: 0xd1ceb00c, Devices: []DeviceLimit{{UUID: d.uuid, MemoryBytes: memory, CoresPercent: cores}}}
	c := &limitedContainer{&container{t: t, dir: dir, library: filepath.Join(d.programs, name+".so"), limits: l}, d}
	if err := WriteLimits(c.path("limits"), l); err != nil {
		t.Fatal(err)
	}
	if err := CreateUsageFile(c.path("books"), l); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *limitedContainer) program() *program {
	c.t.Helper()
	return c.d.startProgram(c.t.(*testing.T), "LD_PRELOAD="+c.library)
}

// readUsage returns the content of the container's usage file.
func (c *limitedContainer) readUsage() ContainerUsage {
	c.t.Helper()
	uses, err := ReadUsageFile(c.path("books"), c.limits)
	if err != nil {
		c.t.Fatal(err)
	}
	return uses[0]
}

// Tests the limiter on a real driver and measures its overhead. The results are saved,
// except for the fake driver.
func TestGPU(t *testing.T) {
	d := requireDevice(t)
	t.Run("addresses", d.testAddresses)
	t.Run("memory", d.testMemory)
	t.Run("pools and virtual memory", d.testFamilies)
	t.Run("launches", d.testLaunchOverhead)
	t.Run("cores", d.testCores)
	t.Logf("%s", d.report.table())
	if path := os.Getenv(resultsVariable); path != "" && !d.isStandIn() {
		if err := os.WriteFile(path, []byte(d.reportPage()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// testAddresses checks an assumption of the limiter: cuGetProcAddress returns addresses
// that the driver exports, and no version of a hooked function that the limiter does not
// know.
func (d *testDevice) testAddresses(t *testing.T) {
	p := d.startUnlimited(t)
	unknown := p.must(0, "addresses 0")
	d.report.add(t, "functions by cuGetProcAddress that the limiter does not know", float64(unknown), "", "0", unknown == 0)
	if said := p.end(); said != "" {
		t.Log(said)
	}
}

// testMemory lets processes allocate pieces until all are rejected, kills half of them,
// and lets the others allocate the freed memory.
func (d *testDevice) testMemory(t *testing.T) {
	first := d.limitContainer(t, "a", d.total/2, 100)
	p := first.program()
	p.must(0, "ctx 0")
	context := first.readUsage().ContextBytes
	p.end()
	n := int(min(processes, d.total*3/4/(context+64*mib)))
	limit := uint64(n) * (context + 64*mib)

	watcher := d.startUnlimited(t)
	watcher.must(0, "ctx 0")
	before := watcher.must(0, "used 0")
	c := d.limitContainer(t, "a", limit, 100)
	programs := make([]*program, n)
	for i := range programs {
		programs[i] = c.program()
	}
	runConcurrently(programs, func(p *program) { p.must(0, "ctx 0") })
	fill := func(p *program) { p.want(outOfMemory, 0, "fill %d", piece) }
	runConcurrently(programs, fill)
	full, grown := c.readUsage(), watcher.must(0, "used 0")-before
	for _, p := range programs[:n/2] {
		p.kill()
	}
	runConcurrently(programs[n/2:], fill)
	again, grownAgain := c.readUsage(), watcher.must(0, "used 0")-before
	for when, u := range map[string]ContainerUsage{"all": full, "the rest after a kill": again} {
		if u.UsedBytes > limit || limit-u.UsedBytes >= piece {
			t.Errorf("%s: the usage file has %d of %d bytes, want less than %d left", when, u.UsedBytes, limit, piece)
		}
	}
	what := fmt.Sprintf("memory: %d processes fill a limit of %d MiB", n, limit/mib)
	d.report.add(t, what+", left", float64(limit-full.UsedBytes)/mib, "MiB", "< 2", limit-full.UsedBytes < piece)
	d.report.add(t, "memory: the same after kill -9 of half of them, left", float64(limit-again.UsedBytes)/mib, "MiB", "< 2", limit-again.UsedBytes < piece)
	for when, g := range map[string]uint64{"": grown, ", after the kill": grownAgain} {
		d.report.add(t, "memory: the device's own count against the limit"+when, 100*float64(g)/float64(limit), "%", "≤ 101", float64(g) <= 1.01*float64(limit))
	}
}

func runConcurrently(programs []*program, do func(*program)) {
	var wg sync.WaitGroup
	for _, p := range programs {
		wg.Go(func() { do(p) })
	}
	wg.Wait()
}

// testFamilies checks the functions other than plain allocations.
func (d *testDevice) testFamilies(t *testing.T) {
	const taken = 256 * mib
	c := d.limitContainer(t, "a", d.total/2, 100)
	p := c.program()
	p.must(0, "ctx 0")
	p.must(0, "kernels 0")
	before := c.readUsage().UsedBytes
	for _, family := range []string{"pool", "vmm"} {
		p.must(0, "%s %d 0", family, taken)
		held := c.readUsage().UsedBytes - before
		p.want(outOfMemory, 0, "%s %d 0", family, d.total/2/piece*piece)
		p.must(0, "%s %d 1", family, taken)
		d.report.add(t, family+": counted of 256 MiB", float64(held)/mib, "MiB", "≥ 256, all given back", held >= taken && c.readUsage().UsedBytes == before)
	}
}

// testLaunchOverhead compares the median launch time with and without the library.
func (d *testDevice) testLaunchOverhead(t *testing.T) {
	const rounds = 5
	took := map[string][]float64{}
	for range rounds {
		for name, start := range map[string]func() *program{
			"bare":                 d.programStarter(t, 0),
			"without a core limit": d.programStarter(t, 100),
			"with a core limit":    d.programStarter(t, 99),
		} {
			p := start()
			p.must(0, "ctx 0")
			p.must(0, "kernels 0")
			took[name] = append(took[name], float64(p.must(0, "time 0"))/1000)
			p.end()
		}
	}
	bare := median(took["bare"])
	d.report.add(t, "launch: without the library", bare, "ns", "", true)
	for _, name := range []string{"without a core limit", "with a core limit"} {
		more := median(took[name]) - bare
		d.report.add(t, "launch: more with the library, "+name, more, "ns", "< 500", more < 500)
	}
}

// programStarter returns a function that starts programs in a container with the given
// core share; 0 means without a container.
func (d *testDevice) programStarter(t *testing.T, cores int) func() *program {
	if cores == 0 {
		return func() *program { return d.startUnlimited(t) }
	}
	return func() *program { return d.limitContainer(t, "a", d.total/2, cores).program() }
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// unsharedResult is the result on an otherwise idle device: the length of the kernels,
// and the number of each kind that end in the measured time.
type unsharedResult struct {
	rounds uint64
	ended  map[string]float64
}

func (d *testDevice) testCores(t *testing.T) {
	alone := d.measureUnshared(t)
	shares := func(what, kind string, tolerance float64, want []int, programs ...*program) {
		t.Helper()
		for i, got := range d.measureWork(programs, kind, alone) {
			row := fmt.Sprintf("%s: %d %% of the cores, got", what, want[i])
			target, ok := "", true
			if tolerance > 0 && !d.isStandIn() {
				target, ok = fmt.Sprintf("%d ± %g", want[i], tolerance), math.Abs(got-float64(want[i])) <= tolerance
			}
			d.report.add(t, row, got, "%", target, ok)
		}
	}
	for _, cores := range []int{25, 50, 75} {
		shares("preload, alone", "kernel", 3, []int{cores}, d.programStarter(t, cores)())
	}
	for _, kind := range []string{"graph", "cooperative"} {
		shares("preload, "+kind+" launches", kind, 3, []int{25}, d.programStarter(t, 25)())
	}
	memory := d.total / 4
	shares("preload, side by side", "kernel", 3, []int{30, 70}, d.limitContainer(t, "a", memory, 30).program(), d.limitContainer(t, "b", memory, 70).program())
	shares("no limit, side by side", "kernel", 0, []int{50, 50}, d.startUnlimited(t), d.startUnlimited(t))
	t.Run("MPS", func(t *testing.T) {
		environment := d.mpsEnvironment(t)
		client := func(percent int) *program {
			return d.startProgram(t, append(environment, fmt.Sprintf("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%d", percent))...)
		}
		shares("MPS, alone", "kernel", 0, []int{25}, client(25))
		shares("MPS, side by side", "kernel", 0, []int{30, 70}, client(30), client(70))
	})
}

func (d *testDevice) measureUnshared(t *testing.T) unsharedResult {
	t.Helper()
	p := d.startUnlimited(t)
	p.must(0, "ctx 0")
	p.must(0, "kernels 0")
	a := unsharedResult{p.must(0, "calibrate 0"), map[string]float64{}}
	for _, kind := range []string{"kernel", "graph", "cooperative"} {
		a.ended[kind] = float64(p.must(0, "work %s 1 %d", kind, d.seconds))
	}
	p.end()
	return a
}

// measureWork runs the programs concurrently and returns each one's throughput as a
// percentage of its throughput alone.
func (d *testDevice) measureWork(programs []*program, kind string, alone unsharedResult) []float64 {
	got := make([]float64, len(programs))
	for _, p := range programs {
		p.must(0, "ctx 0")
		p.must(0, "kernels 0")
		p.must(0, "rounds %d", alone.rounds)
	}
	var wg sync.WaitGroup
	for i, p := range programs {
		wg.Go(func() {
			got[i] = 100 * float64(p.must(0, "work %s %d %d", kind, d.settling, d.seconds)) / alone.ended[kind]
		})
	}
	wg.Wait()
	for _, p := range programs {
		p.end()
	}
	return got
}
