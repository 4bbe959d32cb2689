package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpagent"

	driver "mesos-gpu/executor/image"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator"
)

// call makes an operator call as mesos-go's clients do.
func (r *rig) call(call *agent.Call) (*agent.Response, error) {
	r.t.Helper()
	client := httpcli.New(
		httpcli.Endpoint("http://"+r.agent.cfg.Addr+"/slave(1)/api/v1"), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]),
		httpcli.Do(httpcli.With(httpcli.Timeout(time.Minute))),
	)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	resp, err := httpagent.NewSender(client.Send).Send(ctx, calls.NonStreaming(call))
	if resp != nil {
		defer resp.Close()
	}
	if err != nil {
		return nil, err
	}
	var m agent.Response
	switch call.Type {
	case agent.Call_LAUNCH_NESTED_CONTAINER, agent.Call_KILL_NESTED_CONTAINER, agent.Call_REMOVE_NESTED_CONTAINER:
		return nil, nil
	}
	return &m, resp.Decode(&m)
}

// wantStatus checks the HTTP status of an error.
func wantStatus(t *testing.T, what string, err error, status int, text string) {
	t.Helper()
	code := 0
	if e := (*apierrors.Error)(nil); errors.As(err, &e) {
		code = int(apierrors.Code(0))
		if apierrors.Code(status).Matches(err) {
			code = status
		}
	}
	if err == nil || code != status || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want status %d and %q", what, err, status, text)
	}
}

// parent starts an executor for nested containers.
func (r *rig) parent(resources ...mesos.Resource) mesos.ContainerID {
	r.t.Helper()
	r.run(r.custom("ex"), newTask("t1", "block", resources...))
	last := r.master.awaitStates(r.t, "t1", "RUNNING")
	return *last.ContainerStatus.ContainerID
}

func below(parent mesos.ContainerID, id string) mesos.ContainerID {
	return mesos.ContainerID{Value: id, Parent: &parent}
}

func argv(args ...string) *mesos.CommandInfo {
	shell := false
	return &mesos.CommandInfo{Shell: &shell, Value: &args[0], Arguments: args}
}

func imageInfo(name string) *mesos.ContainerInfo {
	return &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), Mesos: &mesos.ContainerInfo_MesosInfo{
		Image: &mesos.Image{Type: mesos.Image_DOCKER.Enum(), Docker: &mesos.Image_Docker{Name: name}},
	}}
}

func (r *rig) nest(id mesos.ContainerID, command *mesos.CommandInfo, info *mesos.ContainerInfo) error {
	r.t.Helper()
	_, err := r.call(&agent.Call{Type: agent.Call_LAUNCH_NESTED_CONTAINER, LaunchNestedContainer: &agent.Call_LaunchNestedContainer{
		ContainerID: id, Command: command, Container: info,
	}})
	return err
}

func (r *rig) waitNested(id mesos.ContainerID) (syscall.WaitStatus, error) {
	r.t.Helper()
	m, err := r.call(calls.WaitNestedContainer(id))
	if err != nil {
		return 0, err
	}
	return syscall.WaitStatus(*m.WaitNestedContainer.ExitStatus), nil
}

// nestAndWait runs a nested container to its end and returns its output.
func (r *rig) nestAndWait(id mesos.ContainerID, command *mesos.CommandInfo, info *mesos.ContainerInfo) (syscall.WaitStatus, string) {
	r.t.Helper()
	if err := r.nest(id, command, info); err != nil {
		r.t.Fatalf("launch %s: %v\n%s", id.Value, err, r.file("ex", "containers/"+id.Value+"/stderr"))
	}
	ws, err := r.waitNested(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return ws, r.file("ex", "containers/"+id.Value+"/stdout") + r.file("ex", "containers/"+id.Value+"/stderr")
}

func signalNested(id mesos.ContainerID, sig syscall.Signal) *agent.Call {
	n := int32(sig)
	return &agent.Call{Type: agent.Call_KILL_NESTED_CONTAINER, KillNestedContainer: &agent.Call_KillNestedContainer{ContainerID: id, Signal: &n}}
}

func TestNestedContainers(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		p := r.parent()
		command := argv("sh", "sh", "-c", `echo "in $(pwd), $MESOS_SANDBOX, $MINE"; readlink /proc/self/cwd; env | wc -l; echo bad >&2; exit 5`)
		value := "own"
		command.Environment = &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "MINE", Value: &value}}}
		command.Arguments = command.Arguments[1:]
		ws, out := r.nestAndWait(below(p, "n1"), command, nil)
		dir, err := os.Readlink(r.sandbox("ex"))
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(dir, "containers", "n1")
		short := filepath.Join(r.agent.cfg.WorkDir, "tasks", "ex")
		real := dir
		if root {
			real = short
		}
		// PATH, MESOS_SANDBOX, MINE and PWD.
		if want := fmt.Sprintf("in %s, %s, own\n%s\n4\nbad\n", short, short, real); ws.ExitStatus() != 5 || out != want {
			t.Errorf("status %#x, output %q, want %q", int(ws), out, want)
		}
		if target := readlink(t, short); target != dir {
			t.Errorf("outside of the task its short path leads to %s, want %s", target, dir)
		}
		// Another wait has the same result, until the container is removed.
		if again, err := r.waitNested(below(p, "n1")); err != nil || again != ws {
			t.Errorf("second wait: %#x, %v", int(again), err)
		}
		if _, err := r.call(&agent.Call{
			Type:                  agent.Call_REMOVE_NESTED_CONTAINER,
			RemoveNestedContainer: &agent.Call_RemoveNestedContainer{ContainerID: below(p, "n1")},
		}); err != nil {
			t.Error(err)
		}
		_, err = r.waitNested(below(p, "n1"))
		wantStatus(t, "wait for what was removed", err, 404, "cannot be found")
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("its sandbox: %v", err)
		}
	})
}

func TestKillNested(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		p := r.parent()
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGUSR1} {
			id := below(p, fmt.Sprintf("n%d", int(sig)))
			if err := r.nest(id, argv("sleep", "1000"), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := r.call(signalNested(id, sig)); err != nil {
				t.Fatal(err)
			}
			if ws, err := r.waitNested(id); err != nil || !ws.Signaled() || ws.Signal() != sig {
				t.Errorf("after %v: %#x, %v", sig, int(ws), err)
			}
			_, err := r.call(signalNested(id, sig))
			wantStatus(t, "kill of what has ended", err, 404, "has ended")
		}
		_, err := r.call(signalNested(below(p, "n9"), 999))
		wantStatus(t, "no such signal", err, 400, "no signal 999")
	})
}

func TestNestedErrors(t *testing.T) {
	r := newRig(t, false, nil)
	p := r.parent()
	if err := r.nest(below(p, "there"), argv("sleep", "1000"), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.nest(below(p, "there"), argv("sleep", "1000"), nil); err != nil {
		t.Errorf("a second launch of one container is accepted as done, got %v", err)
	}
	uris := argv("true")
	uris.URIs = []mesos.CommandInfo_URI{{Value: "http://example.org"}}
	docker := &mesos.ContainerInfo{Type: mesos.ContainerInfo_DOCKER.Enum()}
	for _, test := range []struct {
		id      mesos.ContainerID
		command *mesos.CommandInfo
		info    *mesos.ContainerInfo
		want    string
	}{
		{below(mesos.ContainerID{Value: "unknown"}, "n"), argv("true"), nil, "does not exist"},
		{mesos.ContainerID{Value: "standalone"}, argv("true"), nil, "no parent"},
		{below(p, "../../x"), argv("true"), nil, "slash"},
		{below(p, "a.b"), argv("true"), nil, "period"},
		{below(below(p, "none"), "n"), argv("true"), nil, "does not run"},
		{below(p, "n"), argv("no-such-program"), nil, "no-such-program"},
		{below(p, "n"), nil, nil, "needs a command"},
		{below(p, "n"), uris, nil, "no name of a file"},
		{below(p, "n"), argv("true"), docker, "MESOS"},
		{below(p, "n"), argv("true"), imageInfo("app"), "root"},
	} {
		wantStatus(t, test.want, r.nest(test.id, test.command, test.info), 400, test.want)
	}
	_, err := r.call(&agent.Call{
		Type:                  agent.Call_REMOVE_NESTED_CONTAINER,
		RemoveNestedContainer: &agent.Call_RemoveNestedContainer{ContainerID: below(p, "there")},
	})
	wantStatus(t, "remove what runs", err, 500, "has not ended")
	_, err = r.waitNested(below(p, "n"))
	wantStatus(t, "wait for what never ran", err, 404, "cannot be found")
	// Nested containers end with their executor.
	r.shutdown("ex")
	r.master.awaitExit(t, "ex")
	if err := r.nest(below(p, "late"), argv("true"), nil); err == nil {
		t.Error("launched in an executor that is gone")
	}
}

// gpuHost is a machine with two GPUs without a driver.
func gpuHost() gpu.Host {
	return gpu.Host{Simulated: true, Driver: "535.104.05", Devices: []gpu.Device{
		{UUID: "GPU-a", Model: "Tesla V100", Minor: 0}, {UUID: "GPU-b", Model: "Tesla V100", Minor: 1},
	}}
}

// gpuRig is an agent with isolation on that machine.
func gpuRig(t *testing.T, change func(*AgentConfig)) *rig {
	t.Helper()
	testneeds.RequireDevicesCgroup(t)
	i, err := isolator.New(isolator.HostConfig{Host: gpuHost()})
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, true, func(c *AgentConfig) {
		c.Isolator = i
		if change != nil {
			change(c)
		}
	})
}

func gpuIDs(ids ...string) mesos.Resource {
	return mesos.Resource{Name: "gpu_ids", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: ids}}
}

const tryGPUs = `for i in 0 1; do cat /dev/nvidia$i 2>&1; done; cat /dev/nvidiactl 2>&1; ls /dev/nvidia-uvm*`

// wantGPUs checks the results of opening both GPUs in a container.
func wantGPUs(t *testing.T, what, out string, first, second string) {
	t.Helper()
	for i, want := range []string{first, second} {
		device := fmt.Sprintf("/dev/nvidia%d", i)
		found := false
		for line := range strings.Lines(out) {
			found = found || strings.Contains(line, device) && strings.Contains(line, want)
		}
		if !found {
			t.Errorf("%s: %s did not give %q in\n%s", what, device, want, out)
		}
	}
	if !strings.Contains(out, "/dev/nvidia-uvm\n") {
		t.Errorf("%s: no /dev/nvidia-uvm in\n%s", what, out)
	}
}

// The errors of the kernel for an allowed device without a driver and for a
// denied one.
const (
	granted = "No such device or address"
	denied  = "Operation not permitted"
)

func TestDevicesOfExecutorAndNested(t *testing.T) {
	r := gpuRig(t, nil)
	p := r.parent(resource.NewScalar("gpus", 1), gpuIDs("GPU-b"))
	_, out := r.nestAndWait(below(p, "n1"), argv("sh", "-c", tryGPUs), nil)
	wantGPUs(t, "nested", out, denied, granted)

	// Devices are added with a task and removed at its end.
	r.run(r.custom("ex"), newTask("t2", tryGPUs, resource.NewScalar("gpus", 1), gpuIDs("GPU-a")))
	r.master.awaitStates(t, "t2", "RUNNING FINISHED")
	wantGPUs(t, "executor with both", r.file("ex", "stdout"), granted, granted)
	_, out = r.nestAndWait(below(p, "n2"), argv("sh", "-c", tryGPUs), nil)
	wantGPUs(t, "after one task ended", out, denied, granted)

	r.run(r.custom("none"), newTask("t3", tryGPUs))
	r.master.awaitStates(t, "t3", "RUNNING FINISHED")
	wantGPUs(t, "executor without", r.file("none", "stdout"), denied, denied)

	for id, task := range map[string]mesos.TaskInfo{
		"unnamed": newTask("t4", "", resource.NewScalar("gpus", 2), gpuIDs("GPU-a")),
		"strange": newTask("t5", "", resource.NewScalar("gpus", 1), gpuIDs("GPU-z")),
		"part":    newTask("t6", "", resource.NewScalar("gpus", 0.5)),
	} {
		r.run(r.custom(id), task)
		last := r.master.awaitStates(t, task.TaskID.Value, "FAILED")
		if last.GetReason() != mesos.REASON_CONTAINER_LAUNCH_FAILED || !strings.Contains(last.GetMessage(), "gpu") && !strings.Contains(last.GetMessage(), "GPU") {
			t.Errorf("%s: %v", id, last)
		}
	}
}

func TestNestedImage(t *testing.T) {
	testneeds.RequireProgram(t, "runc", "runc")
	archive := testimage.BusyboxArchive(t, "team/cuda:12", map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"},
		[]string{"FROM_IMAGE=1", "MINE=image"}, testimage.Entrypoint("/bin/sh", "-c"), testimage.Cmd("echo of the image"))
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "libcuda.so.1"), []byte("driver"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := gpuRig(t, func(c *AgentConfig) {
		c.ImagesDir = strings.TrimSuffix(filepath.Dir(archive), "/team")
		c.Volume = func(context.Context) (string, error) { return volume, nil }
	})
	p := r.parent(resource.NewScalar("gpus", 1), gpuIDs("GPU-b"))
	if ws, out := r.nestAndWait(below(p, "own"), nil, imageInfo("team/cuda:12")); ws != 0 || out != "of the image\n" {
		t.Errorf("the image's own command: %#x, %q", int(ws), out)
	}
	command := argv("sh", "sh", "-c", tryGPUs+`; pwd; env; cat /usr/local/nvidia/libcuda.so.1; touch /usr/local/nvidia/x 2>&1;
		echo kept > file; id -u; hostname; exit 7`)
	command.Arguments = command.Arguments[1:]
	value := "command"
	command.Environment = &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "MINE", Value: &value}}}
	ws, out := r.nestAndWait(below(p, "n1"), command, imageInfo("team/cuda:12"))
	if ws.ExitStatus() != 7 {
		t.Errorf("status %#x", int(ws))
	}
	wantGPUs(t, "image", out, denied, granted)
	host, _ := os.Hostname()
	for _, want := range []string{
		"\n/mnt/mesos/sandbox\n", "FROM_IMAGE=1\n", "MINE=command\n", "MESOS_SANDBOX=/mnt/mesos/sandbox\n",
		"LD_LIBRARY_PATH=/usr/local/cuda/compat:/usr/local/nvidia/lib:/usr/local/nvidia/lib64\n", "driver", "Read-only file system", "\n0\n" + host,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if got := r.file("ex", "containers/n1/file"); got != "kept\n" {
		t.Errorf("the sandbox has %q", got)
	}
	user := "nobody"
	who := argv("sh", "-c", "id -u; grep CapEff /proc/self/status; echo mine > file")
	who.User = &user
	if _, out := r.nestAndWait(below(p, "n2"), who, imageInfo("team/cuda:12")); out != "65534\nCapEff:\t0000000000000000\n" {
		t.Errorf("as another user: %q", out)
	}
	// SIGTERM ends a process without a handler: it is not the first process of
	// its namespace.
	if err := r.nest(below(p, "n3"), argv("sleep", "1000"), imageInfo("team/cuda:12")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.call(signalNested(below(p, "n3"), syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	if ws, err := r.waitNested(below(p, "n3")); err != nil || ws.Signal() != syscall.SIGTERM {
		t.Errorf("after SIGTERM: %#x, %v", int(ws), err)
	}
	// A container that runs when the agent stops is ended too.
	if err := r.nest(below(p, "n4"), argv("sleep", "1000"), imageInfo("team/cuda:12")); err != nil {
		t.Fatal(err)
	}
}

func TestNestedImageErrors(t *testing.T) {
	r := gpuRig(t, func(c *AgentConfig) { c.ImagesDir, c.runc = t.TempDir(), "no-such-runc" })
	p := r.parent()
	wantStatus(t, "no runc", r.nest(below(p, "n"), argv("true"), imageInfo("app")), 400, "install it")
	r.agent.cfg.runc = testneeds.RequireProgram(t, "runc", "runc")
	wantStatus(t, "no image", r.nest(below(p, "n"), argv("true"), imageInfo("app")), 400, filepath.Join(r.agent.cfg.ImagesDir, "app:latest.tar"))
	archive := testimage.BusyboxArchive(t, "needy:1", nil, []string{"NVIDIA_VISIBLE_DEVICES=all"})
	if err := os.Rename(archive, filepath.Join(r.agent.cfg.ImagesDir, "needy:1.tar")); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "no driver", r.nest(below(p, "n"), argv("true"), imageInfo("needy:1")), 400, "this agent has none")
	r.agent.cfg.Driver = driver.HostDriver{Driver: "535.104.05", CUDA: "12.2"}
	archive = testimage.BusyboxArchive(t, "new:1", nil, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"})
	if err := os.Rename(archive, filepath.Join(r.agent.cfg.ImagesDir, "new:1.tar")); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, "too new", r.nest(below(p, "n"), argv("true"), imageInfo("new:1")), 400,
		"image new:1: image is unfit for the agent's driver: it wants cuda>=12.4")
}
