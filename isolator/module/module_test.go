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

	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
)

// isolatorDriver is a process that loads the module, as the agent does.
type isolatorDriver struct {
	*driverProcess
	runtimeDir string
}

// needMesos skips the test without the Mesos that the module is built for.
func needMesos(t *testing.T) {
	t.Helper()
	needHeaders(t)
	if out, err := exec.Command("make", "-s", "headers").CombinedOutput(); err != nil {
		t.Skipf("no headers of Mesos under MESOS_PREFIX: %s", out)
	}
}

func loadModule(t *testing.T, parameters ...string) (*driverProcess, callResult) {
	t.Helper()
	needMesos(t)
	// Like "make module", which has usually been run before.
	build(t, "../../bin", "module")
	build(t, built, "module-test")
	d := startDriver(t, filepath.Join(built, "module-test"), []string{"LIBPROCESS_IP=127.0.0.1"}, append([]string{"../../bin/libmesosgpumodule.so"},
		parameters...)...)
	return d, d.awaitResult(d.started)
}

// startAgent loads the module, by default with a timeout of one second and cgroup v1.
func startAgent(t *testing.T, socket string, parameters ...string) *isolatorDriver {
	t.Helper()
	dir := t.TempDir()
	d, loaded := loadModule(t, append([]string{"socket=" + socket, "timeout=1secs", "runtime_dir=" + dir, "cgroups_hierarchy=" + dir}, parameters...)...)
	if loaded.Kind != "ready" {
		t.Fatalf("got %+v", loaded)
	}
	return &isolatorDriver{d, dir}
}

// containerID returns the Mesos form of "PARENT.CHILD".
func containerID(name string) map[string]any {
	parent, child := "", name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		parent, child = name[:i], name[i+1:]
	}
	v := map[string]any{"value": child}
	if parent != "" {
		v["parent"] = containerID(parent)
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

// config returns a ContainerConfig with additional fields from JSON.
func config(resources []any, more string) map[string]any {
	c := map[string]any{"command_info": map[string]any{"value": "true"}, "directory": "/sandbox", "resources": resources}
	if more != "" {
		if err := json.Unmarshal([]byte(more), &c); err != nil {
			panic(err)
		}
	}
	return c
}

func (i *isolatorDriver) prepare(container string, config map[string]any) callResult {
	i.t.Helper()
	return i.call(map[string]any{"op": "prepare", "container": containerID(container), "config": config})
}

func (i *isolatorDriver) launch(container string, resources []any) {
	i.t.Helper()
	i.mustSucceed(i.prepare(container, config(resources, "")))
	i.mustSucceed(i.isolate(container))
}

func (i *isolatorDriver) isolate(container string) callResult {
	i.t.Helper()
	return i.call(map[string]any{"op": "isolate", "container": containerID(container), "pid": 4711})
}

func (i *isolatorDriver) update(container string, resources []any) <-chan callResult {
	i.t.Helper()
	return i.send(map[string]any{"op": "update", "container": containerID(container), "resources": resources})
}

func (i *isolatorDriver) callOnContainer(op, container string) callResult {
	i.t.Helper()
	return i.call(map[string]any{"op": op, "container": containerID(container)})
}

func (i *isolatorDriver) recover(states, orphans []string) callResult {
	i.t.Helper()
	var list, others []any
	for n, s := range states {
		list = append(list, map[string]any{"container_id": containerID(s), "pid": 100 + n, "directory": "/sandbox"})
	}
	for _, o := range orphans {
		others = append(others, containerID(o))
	}
	return i.call(map[string]any{"op": "recover", "states": list, "orphans": others})
}

func (i *isolatorDriver) mustSucceed(o callResult) callResult {
	i.t.Helper()
	if o.Kind != "ready" {
		i.t.Fatalf("got %+v", o)
	}
	return o
}

func (i *isolatorDriver) wantFailure(o callResult, says string) {
	i.t.Helper()
	if o.Kind != "failed" || !strings.Contains(o.Message, says) {
		i.t.Errorf("got %+v, want failed: …%s", o, says)
	}
}

// wantPending verifies that a call is pending after a later call has ended.
func (i *isolatorDriver) wantPending(call <-chan callResult) {
	i.t.Helper()
	i.mustSucceed(i.callOnContainer("status", "c1"))
	select {
	case o := <-call:
		i.t.Errorf("got %+v, want pending", o)
	default:
	}
}

// hangAll accepts connections and never answers.
func (d *fakeDaemon) hangAll() *fakeDaemon {
	d.t.Helper()
	l, err := net.Listen("unix", d.Path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.stop = sync.OnceFunc(func() { l.Close() })
	return d
}

// holdCall delays the answers to such calls until release is called.
func (d *fakeDaemon) holdCall(call string) (release func()) {
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

// waitForCall blocks until the daemon has received the call.
func (d *fakeDaemon) waitForCall(call string) {
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
		if _, got := loadModule(t, tt.parameter); got.Kind != tt.want {
			t.Errorf("%.40s: %s, want %s", tt.parameter, got.Kind, tt.want)
		}
	}
}

// The daemon receives what Mesos reports of a container, and the launch info contains
// what the daemon grants.
func TestMesosModuleLaunch(t *testing.T) {
	testneeds.RequireRoot(t)
	d := newFakeDaemon(t).start()
	volume := t.TempDir()
	d.setup = containers.LaunchSetup{
		Devices: []string{"GPU-a"},
		Nodes:   []containers.DeviceNode{{Path: "/dev/nvidia0", Major: 195}, {Path: "/dev/nvidia-caps/nvidia-cap1", Major: 511, Minor: 1}},
		Mounts:  []containers.BindMount{{Source: volume, Target: "/usr/local/nvidia", ReadOnly: true}},

		Environment: map[string]string{"NVIDIA_VISIBLE_DEVICES": "GPU-a"},
	}
	i := startAgent(t, d.Path)
	const whose = `{"executor_info":{"executor_id":{"value":"e"},"framework_id":{"value":"f"},"command":{"value":"x"},"labels":{"labels":[{"key":"job","value":"other"},{"key":"mesos-gpu.job","value":"train"}]}}`
	const task = `,"task_info":{"name":"n","task_id":{"value":"t"},"slave_id":{"value":"a"},"labels":{"labels":[{"key":"job","value":"from task"}]}}}`
	const variables = `{"variables":[{"name":"NVIDIA_VISIBLE_DEVICES","type":"VALUE","value":"GPU-a"}]}`

	t.Run("without an image", func(t *testing.T) {
		named := append(gpus(2), map[string]any{"name": "gpu_ids", "type": "SET", "set": map[string]any{"item": []string{"GPU-a"}}},
			map[string]any{
				"name":         "gpus",
				"type":         "SCALAR",
				"scalar":       map[string]any{"value": 1},
				"reservations": []any{map[string]any{"type": "DYNAMIC", "role": "r"}},
			})
		got := i.mustSucceed(i.prepare("c1", config(named, whose+"}")))
		if diff := cmp.Diff(decodeJSON(t, `{"environment":`+variables+`}`), decodeJSON(t, string(got.Value))); diff != "" {
			t.Errorf("launch info (-want +got):\n%s", diff)
		}
		want := containers.LaunchRequest{Container: "c1", Directory: "/sandbox", Framework: "f", Executor: "e", Job: "train",
			Resources: []allocation.MesosResource{{Name: "gpu_ids", Set: []string{"GPU-a"}}, {Name: "gpus", Scalar: 3}}}
		if diff := cmp.Diff(want, d.launched, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the daemon heard (-want +got):\n%s", diff)
		}
	})
	t.Run("a command task with an image", func(t *testing.T) {
		rootfs, devices := t.TempDir(), filepath.Join(i.runtimeDir, "containers/c2/devices")
		if err := os.MkdirAll(devices, 0o700); err != nil {
			t.Fatal(err)
		}
		image := fmt.Sprintf(`,"rootfs":%q,"docker":{"manifest":{"config":{"Labels":{"com.nvidia.volumes.needed":"nvidia_driver"},"Env":["A=b=c","ODD","E="]}}}`,
			rootfs)
		got := i.mustSucceed(i.prepare("c2", config(gpus(1), strings.TrimSuffix(whose, "}")+"}"+image+task)))
		const bind = unix.MS_BIND
		want := fmt.Sprintf(`{"task_environment":%s,"mounts":[
			{"source":%q,"target":%q,"flags":%d},{"source":%q,"target":%q,"flags":%d},{"source":%q,"target":%q,"flags":%d}]}`, variables,
			devices+"/nvidia0", rootfs+"/dev/nvidia0", bind, devices+"/nvidia-caps/nvidia-cap1", rootfs+"/dev/nvidia-caps/nvidia-cap1", bind,
			volume, rootfs+"/usr/local/nvidia", unix.MS_BIND|unix.MS_REC|unix.MS_RDONLY)
		if diff := cmp.Diff(decodeJSON(t, want), decodeJSON(t, string(got.Value))); diff != "" {
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
		wantImage := containers.ImageSettings{
			Labels:      map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"},
			Environment: map[string]string{"A": "b=c", "E": ""},
		}
		if diff := cmp.Diff(wantImage, d.launched.Image); diff != "" || !d.launched.Rootfs || d.launched.Task != "t" || d.launched.Job != "from task" {
			t.Errorf("the daemon heard %+v", d.launched)
		}
		// Existing nodes are created again.
		i.mustSucceed(i.prepare("c2", config(gpus(1), "{"+image[1:]+"}")))
	})
	t.Run("a nested one with an image", func(t *testing.T) {
		devices := filepath.Join(i.runtimeDir, "containers/c2/containers/n/devices")
		if err := os.MkdirAll(devices, 0o700); err != nil {
			t.Fatal(err)
		}
		got := i.mustSucceed(i.prepare("c2.n", config(noGPUs(), fmt.Sprintf(`{"rootfs":%q}`, t.TempDir()))))
		if !strings.Contains(string(got.Value), devices+"/nvidia0") || d.launched.Container != "c2.n" {
			t.Errorf("got %s for %s", got.Value, d.launched.Container)
		}
	})
	t.Run("a debug container", func(t *testing.T) {
		d.recordedCalls()
		got := i.mustSucceed(i.prepare("c2.d", config(noGPUs(), `{"container_class":"DEBUG"}`)))
		i.mustSucceed(i.isolate("c2.d"))
		i.mustSucceed(i.callOnContainer("cleanup", "c2.d"))
		if calls := d.recordedCalls(); len(calls) > 0 || string(got.Value) != "{}" {
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
		i.wantFailure(i.prepare("c3", config(gpus(1), fmt.Sprintf(`{"rootfs":%q}`, rootfs))), "its part 'usr' must be a directory in the image")
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("made %v outside: %v", left, err)
		}
	})
	t.Run("another runtime directory", func(t *testing.T) {
		i.wantFailure(i.prepare("c4", config(gpus(1), fmt.Sprintf(`{"rootfs":%q}`, t.TempDir()))), "parameter runtime_dir must be the agent's --runtime_dir")
	})
}

// The calls during a container's life.
func TestMesosModuleContainerLifeCycle(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path)
	i.mustSucceed(i.recover([]string{"old"}, []string{"orphan", "odd@one"}))
	i.launch("c1", gpus(1))
	i.mustSucceed(i.awaitResult(i.update("c1", gpus(1))))
	i.mustSucceed(i.awaitResult(i.update("c1", gpus(2))))
	i.mustSucceed(i.awaitResult(i.update("c1", gpus(2))))
	i.mustSucceed(i.awaitResult(i.update("c1", noGPUs()))) // without waiting for the daemon
	d.waitForCall("update c1 []")
	watch := i.send(map[string]any{"op": "watch", "container": containerID("c1")})
	for _, op := range []string{"usage", "status"} {
		if got := i.mustSucceed(i.callOnContainer(op, "c1")); op == "status" && string(got.Value) != "{}" {
			t.Errorf("%s: %s", op, got.Value)
		}
	}
	i.mustSucceed(i.callOnContainer("cleanup", "c1"))
	i.mustSucceed(i.callOnContainer("cleanup", "stranger"))
	want := []string{
		"recover [old orphan]", "prepare c1 [{gpus 1 []}]", "isolate c1 4711", "update c1 [{gpus 2 []}]",
		"update c1 []", "cleanup c1", "cleanup stranger",
	}
	if diff := cmp.Diff(want, d.recordedCalls()); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	d.stop()
	i.wantPending(watch)

	d.start()
	d.setAnswer("prepare", &allocation.RejectedError{Why: "container c2 wants 3 GPUs, 1 is free"})
	i.wantFailure(i.prepare("c2", config(gpus(3), "")), "container c2 wants 3 GPUs, 1 is free")
	i.mustSucceed(i.prepare("c3", config(noGPUs(), ""))) // succeeds for any answer of the daemon
	d.setAnswer("prepare", nil)
	d.setAnswer("isolate", fmt.Errorf("write devices.allow: no such file"))
	i.mustSucceed(i.prepare("c4", config(gpus(1), "")))
	i.wantFailure(i.isolate("c4"), "isolate container c4: ask the GPU daemon at "+d.Path+": write devices.allow: no such file")
	i.mustSucceed(i.prepare("c5", config(noGPUs(), "")))
	i.mustSucceed(i.isolate("c5"))
	d.setAnswer("update", &allocation.RejectedError{Why: "gpus:2 is less than its 3 gpu_ids"})
	i.wantFailure(i.awaitResult(i.update("c4", gpus(2))), "gpus:2 is less")
	d.setAnswer("cleanup", fmt.Errorf("disk full"))
	i.mustSucceed(i.callOnContainer("cleanup", "c4"))
}

// Without the daemon, containers without GPUs start, containers with GPUs fail, and
// running containers are not affected. Once the daemon is back, it receives the missed
// calls.
func TestMesosModuleWithoutDaemon(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path)
	i.mustSucceed(i.recover(nil, nil))
	for _, c := range []string{"ends", "grows", "shrinks", "ending"} {
		i.launch(c, gpus(2))
	}
	watch := i.send(map[string]any{"op": "watch", "container": containerID("grows")})
	d.stop()

	begun := time.Now()
	i.wantFailure(i.prepare("new", config(gpus(1), "")),
		"prepare container new: ask the GPU daemon at "+d.Path+": No such file or directory; start the daemon: mesos-gpu agent")
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("took %s to fail, allowed was 1s", took)
	}
	i.mustSucceed(i.callOnContainer("cleanup", "new"))
	i.launch("plain", noGPUs())
	i.mustSucceed(i.awaitResult(i.update("plain", noGPUs())))
	i.mustSucceed(i.awaitResult(i.update("grows", gpus(2))))
	i.wantFailure(i.awaitResult(i.update("grows", gpus(3))), "update container grows: ask the GPU daemon")
	shrinks, ending := i.update("shrinks", gpus(1)), i.update("ending", gpus(1))
	i.mustSucceed(i.awaitResult(i.update("ends", noGPUs()))) // an update to no resources succeeds at once
	i.wantPending(shrinks)
	i.wantPending(ending)
	i.mustSucceed(i.callOnContainer("cleanup", "ending"))
	i.mustSucceed(i.awaitResult(ending)) // cleanup releases all resources
	i.mustSucceed(i.callOnContainer("cleanup", "ends"))
	i.wantPending(shrinks)
	i.wantPending(watch)

	d.recordedCalls()
	d.start()
	i.mustSucceed(i.awaitResult(shrinks))
	d.waitForCall("recover [grows shrinks]")
	d.waitForCall("update shrinks [{gpus 1 []}]")
	i.launch("next", gpus(1))
	i.wantPending(watch)
}

// The daemon adopts unknown containers that a recovery lists by their cgroups. A
// container's cgroup exists before prepare, so it is listed only after prepare.
func TestMesosModuleDoesNotRecoverNewContainers(t *testing.T) {
	d := newFakeDaemon(t)
	i := startAgent(t, d.Path)
	i.mustSucceed(i.recover([]string{"old"}, nil))
	d.start()
	i.launch("c1", gpus(1))
	if got, want := d.recordedCalls()[:2], []string{"recover [old]", "prepare c1 [{gpus 1 []}]"}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	// The same during prepare.
	release := d.holdCall("prepare")
	c2 := i.send(map[string]any{"op": "prepare", "container": containerID("c2"), "config": config(gpus(1), "")})
	d.waitForCall("prepare c2 [{gpus 1 []}]")
	d.setAnswer("cleanup", fmt.Errorf("disk full"))
	i.mustSucceed(i.callOnContainer("cleanup", "c1"))
	c3 := i.send(map[string]any{"op": "prepare", "container": containerID("c3"), "config": config(gpus(1), "")})
	i.wantPending(c3)
	release()
	i.mustSucceed(i.awaitResult(c2))
	i.mustSucceed(i.awaitResult(c3))
	got, want := d.recordedCalls(), []string{"prepare c2 [{gpus 1 []}]", "cleanup c1", "recover [c2 old]", "prepare c3 [{gpus 1 []}]"}
	if !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}

// After an agent restart the containers' resources are not known. No container may be
// destroyed because the daemon is temporarily not available.
func TestMesosModuleAfterAgentRestart(t *testing.T) {
	d := newFakeDaemon(t)
	i := startAgent(t, d.Path)
	i.mustSucceed(i.recover([]string{"c1", "c2", "c3"}, []string{"orphan"}))
	c1 := i.update("c1", gpus(1))
	i.wantPending(c1)
	i.mustSucceed(i.awaitResult(i.update("c2", noGPUs())))
	i.mustSucceed(i.callOnContainer("cleanup", "orphan"))
	c3 := i.update("c3", gpus(2))
	again := i.update("c3", gpus(1)) // the latest total wins
	i.wantPending(again)
	d.start()
	i.mustSucceed(i.awaitResult(c1))
	i.mustSucceed(i.awaitResult(c3))
	i.mustSucceed(i.awaitResult(again))
	d.waitForCall("recover [c1 c2 c3]")
	d.waitForCall("update c1 [{gpus 1 []}]")
	d.waitForCall("update c2 []")
	d.waitForCall("update c3 [{gpus 1 []}]")

	// A daemon that lost its records adopts the container again.
	d.setAnswer("update", &containers.UnknownContainerError{Container: "c1"})
	i.mustSucceed(i.awaitResult(i.update("c1", gpus(2))))
	d.waitForCall("prepare c1 [{gpus 2 []}]")
	d.waitForCall("isolate c1 100")
}
