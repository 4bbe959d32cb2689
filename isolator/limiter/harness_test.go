package limiter

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

const (
	mib       = 1 << 20
	ctxBytes  = 64 * mib // size of a context in the fake driver
	deviceOne = "GPU-01020304-0506-0708-090a-0b0c0d0e0fa0"
	deviceTwo = "GPU-01020304-0506-0708-090a-0b0c0d0e0fa1"
	// inRealTime is a number of participants that selects a device that works in real
	// time.
	inRealTime = 99
)

// buildOnce builds the library's objects, the fake driver and the programs, and returns
// their folder.
var buildOnce = sync.OnceValues(func() (string, error) { return buildTargets("tests") })

// buildTargets makes targets of the Makefile and returns the folder of what is built. The
// folder outlives the run: make compiles only what has changed.
func buildTargets(targets ...string) (string, error) {
	dir, err := filepath.Abs("../../bin/test-build/limiter")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("make", append([]string{"-s", "-j2", "OUT=" + dir}, targets...)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("make %s: %w\n%s", strings.Join(targets, " "), err, out)
	}
	return dir, nil
}

// container has its own limits file, usage file and library.
type container struct {
	t       testing.TB
	built   string
	dir     string
	library string
	device  string // the fake device's file
	limits  ContainerLimits
}

func requireBuilt(t testing.TB) string {
	t.Helper()
	testneeds.RequireProgram(t, "gcc", "gcc")
	testneeds.RequireProgram(t, "make", "make")
	dir, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func newLimits(memory uint64, cores int) ContainerLimits {
	return ContainerLimits{Nonce: 0xd1ceb00c, Devices: []DeviceLimit{{UUID: deviceOne, MemoryBytes: memory, CoresPercent: cores}}}
}

// newMachineFile creates a fake device with that much memory.
func newMachineFile(t testing.TB, bytes uint64, participants, nvmlOffset int) string {
	t.Helper()
	dir := requireBuilt(t)
	path := filepath.Join(t.TempDir(), "device")
	run(t, dir, filepath.Join(dir, "make_device"), path, fmt.Sprint(bytes), fmt.Sprint(participants), fmt.Sprint(nvmlOffset))
	return path
}

func run(t testing.TB, libraries string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = []string{"LD_LIBRARY_PATH=" + libraries, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// newContainer creates a container on the device. Its library has paths of the test.
func newContainer(t testing.TB, device string, l ContainerLimits) *container {
	t.Helper()
	c := &container{t: t, built: requireBuilt(t), dir: t.TempDir(), device: device, limits: l}
	c.library = c.copyWithPaths("simulated.so")
	if err := WriteLimits(c.path("limits"), l); err != nil {
		t.Fatal(err)
	}
	if err := CreateUsageFile(c.path("books"), l); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *container) path(name string) string { return filepath.Join(c.dir, name) }

// copyWithPaths copies a built library or program and replaces the names in
// testdata/platform.c by paths of the container. It returns the path of the copy.
func (c *container) copyWithPaths(name string) string {
	c.t.Helper()
	code, err := os.ReadFile(filepath.Join(c.built, name))
	if err != nil {
		c.t.Fatal(err)
	}
	for old, path := range map[string]string{
		"path of the limits":     c.path("limits"),
		"path of the usage file": c.path("books"),
		"path of a shared file":  c.device,
	} {
		at := bytes.Index(code, []byte(old+"\x00"))
		if at < 0 || len(path) > 255 {
			c.t.Fatalf("%s has no place for the %s, %s", name, old, path)
		}
		copy(code[at:at+256], append([]byte(path), 0))
	}
	copied := filepath.Join(c.t.TempDir(), name)
	if err := os.WriteFile(copied, code, 0o755); err != nil {
		c.t.Fatal(err)
	}
	return copied
}

// program is a running testdata/program.c.
type program struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
}

func (c *container) command(how string) *exec.Cmd {
	name := "program"
	if how == "link" {
		name = "linked"
	}
	cmd := exec.Command(filepath.Join(c.built, name), how)
	cmd.Env = []string{"LD_LIBRARY_PATH=" + c.built, "LD_PRELOAD=" + c.library, "STANDIN_DEVICE=" + c.device, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// start runs the program in the container and waits for its first line, which reports
// that the driver works.
func (c *container) start(how string) *program {
	c.t.Helper()
	return startProgram(c.t, c.command(how))
}

func startProgram(t testing.TB, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	cmd.Stderr = &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if rc, _ := p.answer(); rc != 0 {
		t.Fatalf("cuInit: got %d", rc)
	}
	return p
}

func (p *program) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// end lets the program exit and returns its stderr.
func (p *program) end() string {
	p.t.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("program: %v\n%s", err, p.stderr.String())
	}
	return p.stderr.String()
}

func (p *program) answer() (rc int, value uint64) {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Errorf("read answer: %v\n%s", err, p.stderr.String())
		return -99, 0
	}
	fmt.Sscan(line, &rc, &value)
	return rc, value
}

// do executes a command of the program. The program stores the resulting handle in the
// slot.
func (p *program) do(slot int, line string, args ...any) (int, uint64) {
	p.t.Helper()
	fmt.Fprintf(p.in, "%d %s\n", slot, fmt.Sprintf(line, args...))
	return p.answer()
}

func (p *program) want(rc int, slot int, line string, args ...any) uint64 {
	p.t.Helper()
	got, value := p.do(slot, line, args...)
	if got != rc {
		p.t.Errorf("%s: got %d, want %d\n%s", fmt.Sprintf(line, args...), got, rc, p.stderr.String())
	}
	return value
}

func (p *program) must(slot int, line string, args ...any) uint64 {
	p.t.Helper()
	return p.want(0, slot, line, args...)
}

// deviceUsage returns the fake device's own record of allocated memory, current and
// maximum.
func (c *container) deviceUsage(device int) (used, most uint64) {
	c.t.Helper()
	data, err := os.ReadFile(c.device)
	if err != nil {
		c.t.Fatal(err)
	}
	// The file starts with a mutex (40 bytes) and a condition variable (48 bytes), then
	// has four numbers per device.
	at := data[88+32*device:]
	return binary.LittleEndian.Uint64(at[8:]), binary.LittleEndian.Uint64(at[16:])
}

func (c *container) used(device int) uint64 {
	c.t.Helper()
	uses, err := ReadUsageFile(c.path("books"), c.limits)
	if err != nil {
		c.t.Fatal(err)
	}
	return uses[device].UsedBytes
}

const (
	invalidValue = 1
	outOfMemory  = 2
)
