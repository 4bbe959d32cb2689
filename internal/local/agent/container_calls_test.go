package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator"
)

// The calls work in JSON, from launch to removal.
func TestContainerCalls(t *testing.T) {
	r := newRig(t, false, nil)
	p := r.parent()
	call := func(kind, extra string) (int, string) {
		field := strings.ToLower(kind)
		return r.post("/api/v1", mesosapi.JSON, fmt.Sprintf(`{"type":%q,%q:{"container_id":{"value":"n","parent":{"value":%q}}%s}}`, kind, field, p.Value, extra))
	}
	if code, text := call("LAUNCH_NESTED_CONTAINER", `,"command":{"value":"exec sleep 1000"}`); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if code, text := call("LAUNCH_NESTED_CONTAINER", `,"command":{"value":"exec sleep 1000"}`); code != 202 {
		t.Errorf("a second launch: %d %s", code, text)
	}
	if code, text := call("KILL_NESTED_CONTAINER", ``); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if code, text := call("WAIT_NESTED_CONTAINER", ``); code != 200 || !strings.Contains(text, `"exit_status":9`) {
		t.Errorf("%d %s", code, text)
	}
	if code, text := call("REMOVE_NESTED_CONTAINER", ``); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if code, _ := call("WAIT_NESTED_CONTAINER", ``); code != 404 {
		t.Errorf("after its removal: %d", code)
	}
}

func TestNestedBelowNested(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		p := r.parent()
		n := below(p, "n")
		if err := r.nest(n, argv("sleep", "1000"), nil); err != nil {
			t.Fatal(err)
		}
		deep := below(n, "deep")
		if err := r.nest(deep, argv("sleep", "1000"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.call(signalNested(n, unix.SIGKILL)); err != nil {
			t.Fatal(err)
		}
		if ws, err := r.waitNested(deep); err != nil || ws.Signal() != unix.SIGKILL {
			t.Errorf("below a container that was killed: %#x, %v", int(ws), err)
		}
		if _, err := os.Stat(filepath.Join(r.sandbox("ex"), "containers/n/containers/deep/stdout")); err != nil {
			t.Error(err)
		}
	})
}

// TestWithoutOverlay puts the work directory on an overlay, on which the kernel
// mounts no other overlay.
func TestWithoutOverlay(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	testneeds.RequireProgram(t, "runc", "runc")
	base := t.TempDir()
	for _, name := range []string{"lower", "upper", "scratch", "merged"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	merged := filepath.Join(base, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/scratch", base)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Skipf("needs overlay: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(merged, 0); err != nil {
			t.Error(err)
		}
	})
	archive := testimage.BusyboxArchive(t, "app:1", nil, nil)
	r := newRig(t, true, func(c *AgentConfig) { c.WorkDir, c.ImagesDir = filepath.Join(merged, "work"), filepath.Dir(archive) })
	p := r.parent()
	if _, out := r.nestAndWait(below(p, "n"), argv("sh", "-c", "touch /new && ls /new"), imageInfo("app:1")); out != "/new\n" {
		t.Errorf("output %q", out)
	}
	if stored, _ := filepath.Glob(filepath.Join(r.agent.cfg.WorkDir, storeFolder, "*", "new")); len(stored) > 0 {
		t.Errorf("the container wrote to the store: %v", stored)
	}
}

func TestVolumesAndUsers(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	testneeds.RequireProgram(t, "runc", "runc")
	archive := testimage.BusyboxArchive(t, "app:1", nil, nil)
	r := newRig(t, true, func(c *AgentConfig) { c.ImagesDir = filepath.Dir(archive) })
	p := r.parent()
	data := t.TempDir()
	info := imageInfo("app:1")
	ro, rw := mesos.RO, mesos.RW
	info.Volumes = []mesos.Volume{{HostPath: &data, ContainerPath: "/data", Mode: &rw}, {HostPath: &data, ContainerPath: "/again", Mode: &ro}}
	_, out := r.nestAndWait(below(p, "n"), argv("sh", "-c", "echo x > /data/x; cat /again/x; touch /again/y 2>&1"), info)
	if !strings.HasPrefix(out, "x\n") || !strings.Contains(out, "Read-only") {
		t.Errorf("output %q", out)
	}
	// A relative container path is in the sandbox; a file is mounted as one.
	key := filepath.Join(data, "x")
	inside := imageInfo("app:1")
	inside.Volumes = []mesos.Volume{{Mode: &ro, ContainerPath: "keys/x", Source: &mesos.Volume_Source{
		Type:     mesos.Volume_Source_HOST_PATH,
		HostPath: &mesos.Volume_Source_HostPath{Path: key},
	}}}
	_, out = r.nestAndWait(below(p, "f"), argv("sh", "-c", "cat $MESOS_SANDBOX/keys/x; echo y 2>&1 > keys/x"), inside)
	if !strings.HasPrefix(out, "x\n") || !strings.Contains(out, "Read-only") {
		t.Errorf("file in the sandbox: %q", out)
	}
	relative := "data"
	info.Volumes[0].HostPath = &relative
	wantStatus(t, "relative volume", r.nest(below(p, "m"), argv("true"), info), 400, "absolute host paths")

	// Other users cannot enter the test's own folder.
	if err := os.Chmod(filepath.Dir(r.agent.cfg.WorkDir), 0o755); err != nil {
		t.Fatal(err)
	}
	user := "nobody"
	e := r.custom("as-user")
	e.Command = argv("/bin/sh", "sh", "-c", "id -u > who; sleep 1000")
	e.Command.Arguments, e.Command.User = e.Command.Arguments[1:], &user
	r.run(e, newTask("t9", ""))
	r.master.await(t, "who", func() bool {
		select {
		case r.master.changed <- struct{}{}: // look again
		default:
		}
		return r.file("as-user", "who") == "65534\n"
	})
	e = r.custom("as-eve")
	eve := "no-such-user"
	e.Command.User = &eve
	r.run(e, newTask("t10", ""))
	if last := r.master.awaitStates(t, "t10", "FAILED"); !strings.Contains(last.GetMessage(), eve) {
		t.Errorf("status %v", last)
	}
}

func TestUnsupportedContainerInfo(t *testing.T) {
	name := "host"
	appc := imageInfo("x")
	appc.Mesos.Image.Type = mesos.Image_APPC.Enum()
	for want, change := range map[string]func(*mesos.ContainerInfo){
		"network and name": func(c *mesos.ContainerInfo) { c.Hostname = &name },
		"tty_info":         func(c *mesos.ContainerInfo) { c.TTYInfo = &mesos.TTYInfo{} },
		"need an image": func(c *mesos.ContainerInfo) {
			c.Mesos = nil
			c.Volumes = []mesos.Volume{{ContainerPath: "/x"}}
		},
		"APPC": func(c *mesos.ContainerInfo) { *c = *appc },
	} {
		info := imageInfo("x")
		change(info)
		if _, err := new(EmbeddedAgent).checkContainer(info); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if name, err := new(EmbeddedAgent).checkContainer(&mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum()}); name != "" || err != nil {
		t.Errorf("without image: %q, %v", name, err)
	}
}

// keepingIsolator fails to revoke devices.
type keepingIsolator struct {
	*isolator.Isolator
	devices map[string]int // by cgroup
}

func (k *keepingIsolator) ApplyGrant(cgroup string, g isolator.DeviceGrant) error {
	if len(g.Devices) < k.devices[cgroup] {
		return errors.New("the kernel refused")
	}
	k.devices[cgroup] = len(g.Devices)
	return k.Isolator.ApplyGrant(cgroup, g)
}

// If a device cannot be revoked from a container, the container is destroyed
// before the device is granted to another one.
func TestContainerIsDestroyedIfRevokeFails(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	i, err := isolator.New(isolator.HostConfig{Host: gpuHost()})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, true, func(c *AgentConfig) { c.Isolator = &keepingIsolator{i, map[string]int{}} })
	r.run(r.custom("ex"), newTask("t1", "block"), newTask("t2", "true", resource.NewScalar("gpus", 1), gpuIDs("GPU-a")))
	r.master.awaitStates(t, "t2", "RUNNING FINISHED")
	last := r.master.awaitStates(t, "t1", "RUNNING FAILED")
	if last.GetReason() != mesos.REASON_CONTAINER_UPDATE_FAILED || !strings.Contains(last.GetMessage(), "the kernel refused") {
		t.Errorf("status %v", last)
	}
}
