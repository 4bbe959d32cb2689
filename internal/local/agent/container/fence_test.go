package container

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/rules"
)

// gpus are two nodes without a driver: opening an allowed one fails with ENXIO,
// a denied one with EPERM.
func gpus() []rules.DeviceNode {
	return []rules.DeviceNode{
		{Name: "nvidia0", Major: rules.NvidiaMajor, Minor: 0},
		{Name: "nvidia1", Major: rules.NvidiaMajor, Minor: 1},
		{Name: "nvidia-caps/nvidia-cap1", Major: 511, Minor: 1},
	}
}

// granted restricts a cgroup to the standard devices and GPU 1.
func granted(path string) error {
	return cgroup.V1{}.ConfineCgroup(path, append(rules.StandardRules(),
		rules.DeviceRule{Kind: 'c', Major: rules.NvidiaMajor, Minor: 1, Access: "rw"}))
}

const tryGPUs = `for i in 0 1; do cat /dev/nvidia$i 2>&1; done; `

func wantGrant(t *testing.T, got string) {
	t.Helper()
	lines := strings.Split(got, "\n")
	if len(lines) < 2 || !strings.Contains(lines[0], "Operation not permitted") || !strings.Contains(lines[1], "No such device or address") {
		t.Errorf("opened nvidia0 and nvidia1 with\n%s\nwant EPERM for the first, ENXIO for the second", got)
	}
}

func TestPrivateDevices(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	before := names(t, "/dev")
	s := r.spec(tryGPUs + `
		echo x > /dev/null && head -c1 /dev/zero | wc -c
		ls /dev /dev/nvidia-caps; echo $$; test -c /dev/pts/ptmx && touch /dev/shm/mine && ls -l /dev/fd`)
	s.Nodes, s.Isolate = gpus(), granted
	if status := r.wait(r.launch(s)); status != 0 {
		t.Errorf("status %#x\n%s", int(status), r.read(s.Stderr.Name()))
	}
	got := r.read(s.Stdout.Name())
	wantGrant(t, got)
	const want = "1\n/dev:\nfd\nfull\nnull\nnvidia-caps\nnvidia0\nnvidia1\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n\n/dev/nvidia-caps:\nnvidia-cap1\n"
	if !strings.Contains(got, want) {
		t.Errorf("/dev is\n%s\nwant\n%s", got, want)
	}
	if after := names(t, "/dev"); after != before {
		t.Errorf("the host's /dev was\n%s\nand is\n%s", before, after)
	}
	if _, err := os.Stat("/dev/shm/mine"); err == nil {
		t.Error("the container wrote to the host's /dev/shm")
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, "\n")
}

func TestJoinedContainerSharesDevicesAndEndsAlone(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	s := r.spec("touch /dev/shm/parents; echo ready; sleep 1000")
	s.Nodes, s.Isolate = gpus(), granted
	parent := r.launch(s)
	await(t, "the parent", func() bool { return r.read(s.Stdout.Name()) == "ready" })

	n := r.spec(tryGPUs + `ls /dev/shm; cat /proc/self/cgroup | grep devices: ; tr '\\0' ' ' < /proc/1/cmdline`)
	n.ID, n.Join = []string{s.ID[0], "nested"}, parent
	child := r.launch(n)
	r.wait(child)
	got := r.read(n.Stdout.Name())
	wantGrant(t, got)
	for _, want := range []string{"parents\n", child.CgroupName() + "\n", InitCommand} {
		if !strings.Contains(got+"\n", want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if err := child.RemoveCgroup(); err != nil {
		t.Error(err)
	}
	select {
	case <-parent.Exited():
		t.Error("the parent ended with its nested container")
	default:
	}
}

func TestLimitsAndOutOfMemory(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	if _, ok := r.engine.cgroups.findHierarchy("memory"); !ok {
		t.Skip("needs the cgroup v1 memory hierarchy")
	}
	s := r.spec(`dir=/sys/fs/cgroup; path=` + r.engine.CgroupPath([]string{"c1"}) + `
		cat $dir/memory$path/memory.limit_in_bytes $dir/cpu$path/cpu.shares
		x=$(head -c 200000000 /dev/zero | tr '\0' 'x'); echo ${#x}`)
	s.Limits = ContainerLimits{CPUs: 0.5, MemBytes: 64 << 20}
	c := r.launch(s)
	r.wait(c)
	if got, want := r.read(s.Stdout.Name()), "67108864\n512"; got != want {
		t.Errorf("limits %q, want %q", got, want)
	}
	if u := c.MemoryUsage(); u.OOMKills == 0 || u.LimitBytes != 64<<20 || u.PeakBytes <= 60<<20 || u.PeakBytes > u.LimitBytes {
		t.Errorf("a container that needs more than its limit has used %+v", u)
	}
}

func TestCommandRunsAsUser(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	s := r.spec("id -u; id -g; id -G")
	s.Command.Dir, s.Command.User = "/", &syscall.Credential{Uid: 65534, Gid: 65533, Groups: []uint32{65533, 7}}
	r.wait(r.launch(s))
	if got := r.read(s.Stdout.Name()); got != "65534\n65533\n65533 7" {
		t.Errorf("ids %q", got)
	}
}

// Containers that do not end within the grace period are killed.
func TestClearCgroups(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	s := r.spec("trap '' TERM; sleep 1000")
	c := r.launch(s)
	n := r.spec("trap '' TERM; sleep 1000")
	n.ID, n.Join = []string{s.ID[0], "nested"}, c
	nested := r.launch(n)

	again, err := New(EngineConfig{Program: r.engine.program, Fenced: true, Cgroup: r.engine.cgroup})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := again.ClearCgroups(ctx); err != nil {
		t.Fatal(err)
	}
	r.wait(nested)
	r.wait(c)
	if again.cgroups.cgroupExists(r.engine.cgroup) {
		t.Error("the cgroup is still there")
	}
}

// The test closes the control pipe, as the kernel does for a killed agent.
func TestAgentDeath(t *testing.T) {
	kinds(t, func(t *testing.T, r *rig) {
		s := r.spec("trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 1000 & wait; done")
		c := r.launch(s)
		await(t, "the trap", func() bool { return r.read(s.Stdout.Name()) == "ready" })
		c.control.Close()
		r.wait(c)
		if got := r.read(s.Stdout.Name()); got != "ready\nstopped" {
			t.Errorf("stdout %q: the command was not asked to stop", got)
		}
	})
}

func TestNewRejectsUnsuitableMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		if _, err := New(EngineConfig{Fenced: true, Cgroup: "/x"}); err == nil || !strings.Contains(err.Error(), "root") {
			t.Errorf("error %v, want one about root", err)
		}
		return
	}
	for _, cgroup := range []string{"", "/", "x", "/a/../.."} {
		if _, err := New(EngineConfig{Fenced: true, Cgroup: cgroup}); err == nil {
			t.Errorf("cgroup %q was taken", cgroup)
		}
	}
}

func TestInitRefusesPeople(t *testing.T) {
	cmd := exec.Command(os.Args[0], InitCommand)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(out), "read order") {
		t.Errorf("err %v, output %q", err, out)
	}
}
