package isolator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testneeds"
)

const (
	loadedModules = "Character devices:\n  1 mem\n195 nvidia-frontend\n234 nvidia-caps\n235 nvidia-nvswitch\n507 nvidia-uvm\n\nBlock devices:\n  7 loop\n"
	withoutUVM    = "Character devices:\n  1 mem\n195 nvidia-frontend\n\nBlock devices:\n507 nvidia-uvm\n"
)

// fakeMachine is a folder with /proc/devices, /dev and a fake nvidia-modprobe, which
// appends its arguments to the file "calls" and then runs the script.
type fakeMachine struct{ root string }

func newFakeMachine(t *testing.T, devices, script string) fakeMachine {
	t.Helper()
	m := fakeMachine{t.TempDir()}
	writeFile(t, m.path("proc/devices"), devices)
	writeFile(t, m.path("dev/null"), "")
	writeFile(t, m.path("modprobe"), fmt.Sprintf("#!/bin/sh\ncd %s\necho \"$*\" >>calls\n%s\n", m.root, script))
	if err := os.Chmod(m.path("modprobe"), 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m fakeMachine) path(name string) string { return filepath.Join(m.root, name) }

// makeNodes creates nodes given as "nvidia0 195:0".
func (m fakeMachine) makeNodes(t *testing.T, names ...string) {
	t.Helper()
	testneeds.RequireRoot(t)
	for _, n := range names {
		var name string
		var major, minor uint32
		if _, err := fmt.Sscanf(strings.Replace(n, ":", " ", 1), "%s %d %d", &name, &major, &minor); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mknod(m.path("dev/"+name), unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
			t.Fatal(err)
		}
	}
}

func (m fakeMachine) config(h gpu.Host) HostConfig {
	return HostConfig{Host: h, procRoot: m.path("proc"), devRoot: m.path("dev"), modprobe: m.path("modprobe")}
}

func (m fakeMachine) modprobeCalls() string {
	text, _ := os.ReadFile(m.path("calls"))
	return string(text)
}

func realHost() gpu.Host {
	return gpu.Host{Devices: []gpu.Device{{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-b", Minor: 1}}}
}

func nodeNames(t *testing.T, i *Isolator) string {
	t.Helper()
	nodes, err := i.DeviceNodes(nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, n := range nodes {
		list = append(list, n.Name)
	}
	return strings.Join(list, " ")
}

var gpuNodes = []string{"nvidia0 195:0", "nvidia1 195:1", "nvidiactl 195:255", "nvidia-uvm 507:0"}

// Optional driver nodes are listed if they exist. A node with another device number is
// ignored.
func TestRootDriverNodes(t *testing.T) {
	m := newFakeMachine(t, loadedModules, "")
	m.makeNodes(t, append(gpuNodes, "nvidia-uvm-tools 507:1", "nvidia-modeset 508:254", "nvidia-nvswitchctl 235:255",
		"nvidia-nvswitch0 235:0", "nvidia-nvswitch1 199:1")...)
	i := newIsolator(t, m.config(realHost()))
	want := "nvidia0 nvidia1 nvidiactl nvidia-uvm nvidia-uvm-tools nvidia-nvswitch0 nvidia-nvswitchctl"
	if got := nodeNames(t, i); got != want {
		t.Errorf("got nodes %s, want %s", got, want)
	}
	g := resolveTaskGrant(t, i, "GPU-b")
	if !strings.Contains(formatRules(g), "c 507:0 rwm") || !strings.Contains(formatRules(g), "c 195:1 rw") || strings.Contains(formatRules(g), "235:") {
		t.Errorf("got rules\n%s", formatRules(g))
	}
	if m.modprobeCalls() != "" {
		t.Errorf("nvidia-modprobe was run: %s", m.modprobeCalls())
	}
}

func TestRootDriverMIG(t *testing.T) {
	m := newFakeMachine(t, loadedModules, "")
	m.makeNodes(t, gpuNodes...)
	h := gpu.Host{Devices: []gpu.Device{migDevice("MIG-1", "GPU-a", 0, 3)}}
	i := newIsolator(t, m.config(h))
	want := "nvidia0 nvidia-caps/nvidia-cap3 nvidia-caps/nvidia-cap4 nvidiactl nvidia-uvm"
	if got := nodeNames(t, i); got != want {
		t.Errorf("got nodes %s, want %s", got, want)
	}
	if g := resolveTaskGrant(t, i, "MIG-1"); !strings.Contains(formatRules(g), "c 234:3 rw\nc 234:4 rw") {
		t.Errorf("got rules\n%s", formatRules(g))
	}
}

// nvidia-modprobe is called once for the missing modules.
func TestRootDriverModuleIsLoaded(t *testing.T) {
	load := "cat >proc/devices <<END\n" + loadedModules + "END\n"
	cases := []struct {
		name, devices, script, calls string
		nodes                        []string
	}{
		{"no module", withoutUVM, load + "mknod dev/nvidia-uvm c 507 0", "-u -c=0", gpuNodes[:3]},
		{"no node", loadedModules, "mknod dev/nvidia-uvm c 507 0", "-u -c=0", gpuNodes[:3]},
		{"a stale node", loadedModules, "rm dev/nvidia-uvm; mknod dev/nvidia-uvm c 507 0", "-u -c=0",
			[]string{"nvidia0 195:0", "nvidia1 195:1", "nvidiactl 195:255", "nvidia-uvm 509:0"}},
		{"no GPU's node", loadedModules, "mknod dev/nvidia1 c 195 1", "-u -c=1",
			[]string{"nvidia0 195:0", "nvidiactl 195:255", "nvidia-uvm 507:0"}},
		{"nothing", withoutUVM,
			load + "for n in 0 1; do mknod dev/nvidia$n c 195 $n; done; mknod dev/nvidiactl c 195 255; mknod dev/nvidia-uvm c 507 0",
			"-u -c=0 -c=1", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := newFakeMachine(t, c.devices, c.script)
			m.makeNodes(t, c.nodes...)
			i := newIsolator(t, m.config(realHost()))
			if got := nodeNames(t, i); got != "nvidia0 nvidia1 nvidiactl nvidia-uvm" {
				t.Errorf("got nodes %s", got)
			}
			if m.modprobeCalls() != c.calls+"\n" {
				t.Errorf("nvidia-modprobe was run with %q, want %q", m.modprobeCalls(), c.calls)
			}
		})
	}
}

func TestDriverCannotBeLoaded(t *testing.T) {
	cases := []struct{ name, devices, script, want string }{
		{"no module, and an error", withoutUVM, "echo 'no such GPU' >&2; exit 1",
			"is named nvidia-uvm: its module is not loaded: run "},
		{"output of nvidia-modprobe is in the error", withoutUVM, "echo 'no such GPU' >&2; exit 1",
			"exit status 1: no such GPU; as root, run: nvidia-modprobe -u -c=0 -c=1"},
		{"silence", withoutUVM, "exit 3", "exit status 3; as root, run"},
		{"no help", withoutUVM, "", "its module is not loaded, although nvidia-modprobe -u -c=0 -c=1 succeeded"},
		{"no number", "Character devices:\nx nvidia-uvm\n", "", "its module is not loaded"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := newFakeMachine(t, c.devices, c.script)
			if _, err := New(m.config(realHost())); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	m := newFakeMachine(t, withoutUVM, "")
	cfg := m.config(realHost())
	cfg.modprobe = m.path("none")
	if _, err := New(cfg); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "as root, run: nvidia-modprobe") {
		t.Errorf("no nvidia-modprobe: %v", err)
	}
	if _, err := New(HostConfig{Host: realHost(), procRoot: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no /proc/devices: %v", err)
	}
	// A machine without GPUs does not need the driver.
	newIsolator(t, HostConfig{procRoot: t.TempDir()})
}
