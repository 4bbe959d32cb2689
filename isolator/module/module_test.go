//go:build mesos

package module

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/need"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/ledger"
)

// isolator is the module in a process that stands for the agent.
type isolator struct {
	*driver
	runtimeDir string
}

// needMesos asks for the Mesos that the module is built for.
func needMesos(t *testing.T) {
	t.Helper()
	needHeaders(t)
	if out, err := exec.Command("make", "-s", "headers").CombinedOutput(); err != nil {
		t.Skipf("no headers of Mesos under MESOS_PREFIX: %s", out)
	}
}

func load(t *testing.T, parameters ...string) (*driver, outcome) {
	t.Helper()
	needMesos(t)
	// As "make module" does, which has mostly been run.
	build(t, "../../bin", "module")
	build(t, built, "module-test")
	d := drive(t, filepath.Join(built, "module-test"), []string{"LIBPROCESS_IP=127.0.0.1"}, append([]string{"../../bin/libmesosgpumodule.so"}, parameters...)...)
	return d, d.await(d.started)
}

// agent loads the module with a timeout of a second and cgroup v1, if the
// parameters do not say otherwise.
func agent(t *testing.T, socket string, parameters ...string) *isolator {
	t.Helper()
	dir := t.TempDir()
	d, loaded := load(t, append([]string{"socket=" + socket, "timeout=1secs", "runtime_dir=" + dir, "cgroups_hierarchy=" + dir}, parameters...)...)
	if loaded.Kind != "ready" {
		t.Fatalf("got %+v", loaded)
	}
	return &isolator{d, dir}
}

// id is Mesos's form of "PARENT.CHILD".
func id(name string) map[string]any {
	parent, child := "", name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		parent, child = name[:i], name[i+1:]
	}
	v := map[string]any{"value": child}
	if parent != "" {
		v["parent"] = id(parent)
	}
	return v
}

func gpus(n float64) []any {
	return []any{
		map[string]any{"name": "cpus", "type": "SCALAR", "scalar": map[string]any{"value": 0.5}},
		map[string]any{"name": "gpus", "type": "SCALAR", "scalar": map[string]any{"value": n}},
	}
}

func noGPUs() []any { return gpus(0)[:1] }

// config is a container's, with more of Mesos's fields from JSON.
func config(resources []any, more string) map[string]any {
	c := map[string]any{"command_info": map[string]any{"value": "true"}, "directory": "/sandbox", "resources": resources}
	if more != "" {
		if err := json.Unmarshal([]byte(more), &c); err != nil {
			panic(err)
		}
	}
	return c
}

func (i *isolator) prepare(container string, config map[string]any) outcome {
	i.t.Helper()
	return i.call(map[string]any{"op": "prepare", "container": id(container), "config": config})
}

func (i *isolator) launch(container string, resources []any) {
	i.t.Helper()
	i.must(i.prepare(container, config(resources, "")))
	i.must(i.isolate(container))
}

func (i *isolator) isolate(container string) outcome {
	i.t.Helper()
	return i.call(map[string]any{"op": "isolate", "container": id(container), "pid": 4711})
}

func (i *isolator) update(container string, resources []any) <-chan outcome {
	i.t.Helper()
	return i.send(map[string]any{"op": "update", "container": id(container), "resources": resources})
}

func (i *isolator) do(op, container string) outcome {
	i.t.Helper()
	return i.call(map[string]any{"op": op, "container": id(container)})
}

func (i *isolator) recover(states, orphans []string) outcome {
	i.t.Helper()
	var list, others []any
	for n, s := range states {
		list = append(list, map[string]any{"container_id": id(s), "pid": 100 + n, "directory": "/sandbox"})
	}
	for _, o := range orphans {
		others = append(others, id(o))
	}
	return i.call(map[string]any{"op": "recover", "states": list, "orphans": others})
}

func (i *isolator) must(o outcome) outcome {
	i.t.Helper()
	if o.Kind != "ready" {
		i.t.Fatalf("got %+v", o)
	}
	return o
}

func (i *isolator) fails(o outcome, says string) {
	i.t.Helper()
	if o.Kind != "failed" || !strings.Contains(o.Message, says) {
		i.t.Errorf("got %+v, want failed: …%s", o, says)
	}
}

// pends makes sure that a call has not ended, after one that came later has.
func (i *isolator) pends(call <-chan outcome) {
	i.t.Helper()
	i.must(i.do("status", "c1"))
	select {
	case o := <-call:
		i.t.Errorf("got %+v, want pending", o)
	default:
	}
}

// hang listens and answers nobody.
func (d *daemon) hang() *daemon {
	d.t.Helper()
	l, err := net.Listen("unix", d.Path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.stop = sync.OnceFunc(func() { l.Close() })
	return d
}

// hold keeps such calls from being answered until they are released.
func (d *daemon) hold(call string) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make(chan struct{})
	d.held[call] = held
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.held, call)
		close(held)
	}
}

// hears waits until that call has come.
func (d *daemon) hears(call string) {
	d.t.Helper()
	deadline := time.After(time.Minute)
	for {
		d.mu.Lock()
		came, more, calls := slices.Contains(d.calls, call), d.more, d.calls
		d.mu.Unlock()
		if came {
			return
		}
		select {
		case <-more:
		case <-deadline:
			d.t.Fatalf("did not hear %q but %q", call, calls)
		}
	}
}

func TestMesosModuleParameters(t *testing.T) {
	for _, tt := range []struct{ parameter, want string }{
		{"socket=/run/x.sock", "ready"}, {"timeout=500ms", "ready"}, {"runtime_dir=/run/mesos", "ready"},
		{"socket=x.sock", "refused"}, {"socket=", "refused"}, {"socket=/" + strings.Repeat("x", 107), "refused"},
		{"timeout=5", "refused"}, {"timeout=1ms", "refused"}, {"timeout=1hrs", "refused"},
		{"cgroups_hierarchy=/absent", "ready"}, {"cgroups_hierarchy=cgroup", "refused"},
		{"runtime_dir=run", "refused"}, {"sockets=/x", "refused"},
	} {
		if _, got := load(t, tt.parameter); got.Kind != tt.want {
			t.Errorf("%.40s: %s, want %s", tt.parameter, got.Kind, tt.want)
		}
	}
}

// What Mesos says of a container reaches the daemon, and what the daemon
// grants becomes what Mesos launches.
func TestMesosModuleLaunch(t *testing.T) {
	need.Root(t)
	d := newDaemon(t).start()
	volume := t.TempDir()
	d.setup = containers.Setup{
		Devices: []string{"GPU-a"},
		Nodes:   []containers.Node{{Path: "/dev/nvidia0", Major: 195}, {Path: "/dev/nvidia-caps/nvidia-cap1", Major: 511, Minor: 1}},
		Mounts:  []containers.Mount{{Source: volume, Target: "/usr/local/nvidia", ReadOnly: true}},

		Environment: map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
	}
	i := agent(t, d.Path)
	const whose = `{"executor_info":{"executor_id":{"value":"e"},"framework_id":{"value":"f"},"command":{"value":"x"},"labels":{"labels":[{"key":"job","value":"other"},{"key":"mesos-gpu.job","value":"train"}]}}`
	const task = `,"task_info":{"name":"n","task_id":{"value":"t"},"slave_id":{"value":"a"},"labels":{"labels":[{"key":"job","value":"from task"}]}}}`
	const variables = `{"variables":[{"name":"NVIDIA_VISIBLE_DEVICES","type":"VALUE","value":"GPU-a"}]}`

	t.Run("without an image", func(t *testing.T) {
		named := append(gpus(2), map[string]any{"name": "gpu_ids", "type": "SET", "set": map[string]any{"item": []string{"GPU-a"}}},
			map[string]any{"name": "gpus", "type": "SCALAR", "scalar": map[string]any{"value": 1}, "reservations": []any{map[string]any{"type": "DYNAMIC", "role": "r"}}})
		got := i.must(i.prepare("c1", config(named, whose+"}")))
		if diff := cmp.Diff(decoded(t, `{"environment":`+variables+`}`), decoded(t, string(got.Value))); diff != "" {
			t.Errorf("launch info (-want +got):\n%s", diff)
		}
		want := containers.Launch{Container: "c1", Directory: "/sandbox", Framework: "f", Executor: "e", Job: "train",
			Resources: []ledger.Resource{{Name: "gpu_ids", Set: []string{"GPU-a"}}, {Name: "gpus", Scalar: 3}}}
		if diff := cmp.Diff(want, d.launched, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the daemon heard (-want +got):\n%s", diff)
		}
	})
	t.Run("a command task with an image", func(t *testing.T) {
		rootfs, devices := t.TempDir(), filepath.Join(i.runtimeDir, "containers/c2/devices")
		if err := os.MkdirAll(devices, 0o700); err != nil {
			t.Fatal(err)
		}
		image := fmt.Sprintf(`,"rootfs":%q,"docker":{"manifest":{"config":{"Labels":{"com.nvidia.volumes.needed":"nvidia_driver"},"Env":["A=b=c","ODD","E="]}}}`, rootfs)
		got := i.must(i.prepare("c2", config(gpus(1), strings.TrimSuffix(whose, "}")+"}"+image+task)))
		const bind = unix.MS_BIND
		want := fmt.Sprintf(`{"task_environment":%s,"mounts":[
			{"source":%q,"target":%q,"flags":%d},{"source":%q,"target":%q,"flags":%d},{"source":%q,"target":%q,"flags":%d}]}`, variables,
			devices+"/nvidia0", rootfs+"/dev/nvidia0", bind, devices+"/nvidia-caps/nvidia-cap1", rootfs+"/dev/nvidia-caps/nvidia-cap1", bind,
			volume, rootfs+"/usr/local/nvidia", unix.MS_BIND|unix.MS_REC|unix.MS_RDONLY)
		if diff := cmp.Diff(decoded(t, want), decoded(t, string(got.Value))); diff != "" {
			t.Errorf("launch info (-want +got):\n%s", diff)
		}
		if info, err := os.Stat(rootfs + "/usr/local/nvidia"); err != nil || !info.IsDir() {
			t.Errorf("the volume's place: %v, %v", info, err)
		}
		for name, number := range map[string]uint64{"nvidia0": unix.Mkdev(195, 0), "nvidia-caps/nvidia-cap1": unix.Mkdev(511, 1)} {
			var s unix.Stat_t
			if err := unix.Stat(filepath.Join(devices, name), &s); err != nil || s.Mode != unix.S_IFCHR|0o666 || s.Rdev != number {
				t.Errorf("node %s: %v, mode %o, number %x", name, err, s.Mode, s.Rdev)
			}
		}
		wantImage := containers.Image{Labels: map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, Environment: map[string]string{"A": "b=c", "E": ""}}
		if diff := cmp.Diff(wantImage, d.launched.Image); diff != "" || !d.launched.Rootfs || d.launched.Task != "t" || d.launched.Job != "from task" {
			t.Errorf("the daemon heard %+v", d.launched)
		}
		// Nodes that are left from before are made anew.
		i.must(i.prepare("c2", config(gpus(1), "{"+image[1:]+"}")))
	})
	t.Run("a nested one with an image", func(t *testing.T) {
		devices := filepath.Join(i.runtimeDir, "containers/c2/containers/n/devices")
		if err := os.MkdirAll(devices, 0o700); err != nil {
			t.Fatal(err)
		}
		got := i.must(i.prepare("c2.n", config(noGPUs(), fmt.Sprintf(`{"rootfs":%q}`, t.TempDir()))))
		if !strings.Contains(string(got.Value), devices+"/nvidia0") || d.launched.Container != "c2.n" {
			t.Errorf("got %s for %s", got.Value, d.launched.Container)
		}
	})
	t.Run("a debug container", func(t *testing.T) {
		d.heard()
		got := i.must(i.prepare("c2.d", config(noGPUs(), `{"container_class":"DEBUG"}`)))
		i.must(i.isolate("c2.d"))
		i.must(i.do("cleanup", "c2.d"))
		if calls := d.heard(); len(calls) > 0 || string(got.Value) != "{}" {
			t.Errorf("heard %q, got %s", calls, got.Value)
		}
	})
	t.Run("an image that leads out of itself", func(t *testing.T) {
		rootfs, outside := t.TempDir(), t.TempDir()
		if err := os.MkdirAll(filepath.Join(i.runtimeDir, "containers/c3/devices"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, filepath.Join(rootfs, "usr")); err != nil {
			t.Fatal(err)
		}
		i.fails(i.prepare("c3", config(gpus(1), fmt.Sprintf(`{"rootfs":%q}`, rootfs))), "its part 'usr' must be a directory in the image")
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("made %v outside: %v", left, err)
		}
	})
	t.Run("another runtime directory", func(t *testing.T) {
		i.fails(i.prepare("c4", config(gpus(1), fmt.Sprintf(`{"rootfs":%q}`, t.TempDir()))), "parameter runtime_dir must be the agent's --runtime_dir")
	})
}

// The life of a container, call by call.
func TestMesosModuleLife(t *testing.T) {
	d := newDaemon(t).start()
	i := agent(t, d.Path)
	i.must(i.recover([]string{"old"}, []string{"orphan", "odd@one"}))
	i.launch("c1", gpus(1))
	i.must(i.await(i.update("c1", gpus(1))))
	i.must(i.await(i.update("c1", gpus(2))))
	i.must(i.await(i.update("c1", gpus(2))))
	i.must(i.await(i.update("c1", noGPUs())))
	watch := i.send(map[string]any{"op": "watch", "container": id("c1")})
	for _, op := range []string{"usage", "status"} {
		if got := i.must(i.do(op, "c1")); op == "status" && string(got.Value) != "{}" {
			t.Errorf("%s: %s", op, got.Value)
		}
	}
	i.must(i.do("cleanup", "c1"))
	i.must(i.do("cleanup", "stranger"))
	want := []string{"recover [old orphan]", "prepare c1 [{gpus 1 []}]", "isolate c1 4711", "update c1 [{gpus 2 []}]", "update c1 []", "cleanup c1", "cleanup stranger"}
	if diff := cmp.Diff(want, d.heard()); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	d.stop()
	i.pends(watch)

	d.start()
	d.answer("prepare", &ledger.Refusal{Why: "container c2 wants 3 GPUs, 1 is free"})
	i.fails(i.prepare("c2", config(gpus(3), "")), "container c2 wants 3 GPUs, 1 is free")
	i.must(i.prepare("c3", config(noGPUs(), ""))) // whatever the daemon says
	d.answer("prepare", nil)
	d.answer("isolate", fmt.Errorf("write devices.allow: no such file"))
	i.must(i.prepare("c4", config(gpus(1), "")))
	i.fails(i.isolate("c4"), "isolate container c4: ask the GPU daemon at "+d.Path+": write devices.allow: no such file")
	i.must(i.prepare("c5", config(noGPUs(), "")))
	i.must(i.isolate("c5"))
	d.answer("update", &ledger.Refusal{Why: "gpus:2 is less than its 3 gpu_ids"})
	i.fails(i.await(i.update("c4", gpus(2))), "gpus:2 is less")
	d.answer("cleanup", fmt.Errorf("disk full"))
	i.must(i.do("cleanup", "c4"))
}

// Without the daemon containers without GPUs start, those with GPUs do not,
// and those that run are left alone; once it is back it hears what it missed.
func TestMesosModuleWithoutTheDaemon(t *testing.T) {
	d := newDaemon(t).start()
	i := agent(t, d.Path)
	i.must(i.recover(nil, nil))
	for _, c := range []string{"ends", "grows", "shrinks", "ending"} {
		i.launch(c, gpus(2))
	}
	watch := i.send(map[string]any{"op": "watch", "container": id("grows")})
	d.stop()

	begun := time.Now()
	i.fails(i.prepare("new", config(gpus(1), "")), "prepare container new: ask the GPU daemon at "+d.Path+": No such file or directory; start the daemon: mesos-gpu agent")
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %s to fail, allowed was 1s", took)
	}
	i.must(i.do("cleanup", "new"))
	i.launch("plain", noGPUs())
	i.must(i.await(i.update("plain", noGPUs())))
	i.must(i.await(i.update("grows", gpus(2))))
	i.fails(i.await(i.update("grows", gpus(3))), "update container grows: ask the GPU daemon")
	shrinks, ending := i.update("shrinks", gpus(1)), i.update("ending", gpus(1))
	i.must(i.await(i.update("ends", noGPUs()))) // its task's end is told
	i.pends(shrinks)
	i.pends(ending)
	i.must(i.do("cleanup", "ending"))
	i.must(i.await(ending)) // with the container all is given back
	i.must(i.do("cleanup", "ends"))
	i.pends(shrinks)
	i.pends(watch)

	d.heard()
	d.start()
	i.must(i.await(shrinks))
	d.hears("recover [grows shrinks]")
	d.hears("update shrinks [{gpus 1 []}]")
	i.launch("next", gpus(1))
	i.pends(watch)
}

// The daemon finds those that are named and new to it again by their cgroups,
// which a container has before it is prepared: it is named once it is.
func TestMesosModuleRecoversNobodyNew(t *testing.T) {
	d := newDaemon(t)
	i := agent(t, d.Path)
	i.must(i.recover([]string{"old"}, nil))
	d.start()
	i.launch("c1", gpus(1))
	if got, want := d.heard()[:2], []string{"recover [old]", "prepare c1 [{gpus 1 []}]"}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	// Now while it is being prepared.
	release := d.hold("prepare")
	c2 := i.send(map[string]any{"op": "prepare", "container": id("c2"), "config": config(gpus(1), "")})
	d.hears("prepare c2 [{gpus 1 []}]")
	d.answer("cleanup", fmt.Errorf("disk full"))
	i.must(i.do("cleanup", "c1"))
	c3 := i.send(map[string]any{"op": "prepare", "container": id("c3"), "config": config(gpus(1), "")})
	i.pends(c3)
	release()
	i.must(i.await(c2))
	i.must(i.await(c3))
	got, want := d.heard(), []string{"prepare c2 [{gpus 1 []}]", "cleanup c1", "recover [c2 old]", "prepare c3 [{gpus 1 []}]"}
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// After the agent's restart nobody knows what the containers have: none may
// be destroyed because the daemon is away just then.
func TestMesosModuleAfterTheAgentsRestart(t *testing.T) {
	d := newDaemon(t)
	i := agent(t, d.Path)
	i.must(i.recover([]string{"c1", "c2", "c3"}, []string{"orphan"}))
	c1 := i.update("c1", gpus(1))
	i.pends(c1)
	i.must(i.await(i.update("c2", noGPUs())))
	i.must(i.do("cleanup", "orphan"))
	c3 := i.update("c3", gpus(2))
	again := i.update("c3", gpus(1)) // the newest total counts
	i.pends(again)
	d.start()
	i.must(i.await(c1))
	i.must(i.await(c3))
	i.must(i.await(again))
	d.hears("recover [c1 c2 c3]")
	d.hears("update c1 [{gpus 1 []}]")
	d.hears("update c2 []")
	d.hears("update c3 [{gpus 1 []}]")

	// A daemon that lost its books learns of the container anew.
	d.answer("update", &containers.Unknown{Container: "c1"})
	i.must(i.await(i.update("c1", gpus(2))))
	d.hears("prepare c1 [{gpus 2 []}]")
	d.hears("isolate c1 100")
}
