//go:build mesos

package unified

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpagent"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/rotate"
	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// isolation is the agent's flag for everything that a task's container may request.
const isolation = "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime,volume/host_path,posix/rlimits,namespaces/ipc"

// onMesos returns a runtime for nested containers below a real Apache Mesos container,
// and that container's ID.
func onMesos(t *testing.T, images string) (*NestedRuntime, mesos.ContainerID) {
	t.Helper()
	master := apachemesos.StartMaster(t)
	a := apachemesos.AgentProcess{Master: master.Addr, IP: "127.0.0.1", Flags: []string{
		isolation, "--image_providers=docker", "--docker_registry=" + images, "--resources=cpus:2;mem:1024;disk:4096",
	}}.Start(t)
	a.AwaitReady(t)
	apachemesos.Spawn(t, nil, filepath.Join(os.Getenv("MESOS_PREFIX"), "bin", "mesos-execute"),
		"--master="+master.Addr, "--name=parent", "--command=sleep 1000", "--resources=cpus:0.1;mem:64")
	client := httpcli.New(httpcli.Endpoint("http://"+a.Addr+"/slave(1)/api/v1"), httpcli.Codec(httpcli.DefaultCodec))
	u := &NestedRuntime{Agent: httpagent.NewSender(client.Send), Log: quiet(t)}
	var parent mesos.ContainerID
	apachemesos.PollUntil(t, "a container", func() bool {
		answer, err := u.try(t, calls.GetContainers())
		if err != nil {
			return false // the agent may still be recovering
		}
		found := answer.GetContainers.GetContainers()
		if len(found) == 0 {
			return false
		}
		parent = found[0].ContainerID
		return found[0].ContainerStatus.GetExecutorPID() != 0
	})
	for _, flag := range u.ask(t, calls.GetFlags()).GetFlags.Flags {
		if flag.Name == "work_dir" {
			found, err := filepath.Glob(filepath.Join(flag.GetValue(), "slaves/*/frameworks/*/executors/*/runs", parent.Value))
			if err != nil || len(found) != 1 {
				t.Fatalf("sandboxes %v (%v)", found, err)
			}
			u.Sandbox = found[0]
		}
	}
	return u, parent
}

func (u *NestedRuntime) ask(t *testing.T, call *agent.Call) *agent.Response {
	t.Helper()
	answer, err := u.try(t, call)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (u *NestedRuntime) try(t *testing.T, call *agent.Call) (*agent.Response, error) {
	t.Helper()
	response, err := u.Agent.Send(t.Context(), calls.NonStreaming(call))
	if err != nil {
		return nil, err
	}
	defer response.Close()
	var answer agent.Response
	if err := response.Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return &answer, nil
}

// recordedSender returns a folder with an image archive in the format of the Docker
// engine, the only one that Mesos reads.
func recordedSender(t *testing.T, name string, options ...testimage.ImageOption) string {
	t.Helper()
	engine, folder := testneeds.RequireDockerEngine(t), t.TempDir()
	testimage.LoadImage(t, engine, testimage.BusyboxArchive(t, name+":latest", nil, []string{"FROM_IMAGE=1"}, options...))
	r, err := engine.ImageSave(t.Context(), []string{name + ":latest"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := os.Create(filepath.Join(folder, name+".tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		t.Fatal(err)
	}
	return folder
}

const imageName = "mesos-gpu-unified-mesos"

// inImage returns a task in an image with everything that a job may request.
func inImage(parent mesos.ContainerID, data, script string) task.TaskSpec {
	number := func(n uint64) *uint64 { return &n }
	size := uint32(24)
	return task.TaskSpec{
		ID: "t", Container: parent, Argv: []string{"/bin/sh", "-c", script}, Env: map[string]string{"OF": "task"}, Image: imageName,
		MesosContainer: &mesos.ContainerInfo{
			Type:  mesos.ContainerInfo_MESOS.Enum(),
			Mesos: &mesos.ContainerInfo_MesosInfo{Image: &mesos.Image{Type: mesos.Image_DOCKER.Enum(), Cached: new(bool), Docker: &mesos.Image_Docker{Name: imageName}}},
			Volumes: []mesos.Volume{
				{Mode: mesos.RO.Enum(), ContainerPath: "/ro", HostPath: &data}, {Mode: mesos.RW.Enum(), ContainerPath: "/rw", HostPath: &data},
			},
			RlimitInfo: &mesos.RLimitInfo{Rlimits: []mesos.RLimitInfo_RLimit{{Type: mesos.RLimitInfo_RLimit_RLMT_NOFILE, Soft: number(77), Hard: number(99)}}},
			LinuxInfo:  &mesos.LinuxInfo{IPCMode: mesos.LinuxInfo_PRIVATE.Enum(), SHMSize: &size},
		},
	}
}

func (u *NestedRuntime) output(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(u.Sandbox, name))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// Apache Mesos provides everything that a job's container may request.
func TestMesosContainer(t *testing.T) {
	u, parent := onMesos(t, recordedSender(t, imageName))
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "in"), []byte("from the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const script = `cat /ro/in; touch /ro/x 2>&1; echo to the host > /rw/out; df -m /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2; ulimit -Sn; ulimit -Hn; echo $FROM_IMAGE $OF`
	r, err := u.Start(t.Context(), inImage(parent, data, script))
	if err != nil {
		t.Fatal(err)
	}
	exit, err := r.Wait(t.Context())
	if stderr := u.output(t, "stderr"); strings.Contains(stderr, "sysrq-trigger") {
		t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
	}
	if err != nil || !exit.Succeeded() {
		t.Errorf("ended with %v (%v)", exit, err)
	}
	if got, want := u.output(t, "stdout"), "from the host\ntouch: /ro/x: Read-only file system\n24\n77\n99\n1 task\n"; got != want {
		t.Errorf("wrote %q, want %q; stderr %q", got, want, u.output(t, "stderr"))
	}
	if text, err := os.ReadFile(filepath.Join(data, "out")); err != nil || string(text) != "to the host\n" {
		t.Errorf("the host reads %q (%v)", text, err)
	}
}

// An image's entrypoint receives the task's arguments, and variables with names that
// shells do not support.
func TestMesosImageEntrypoint(t *testing.T) {
	u, parent := onMesos(t, recordedSender(t, imageName, testimage.Entrypoint("/bin/env"), testimage.Cmd("sh", "-c", "false")))
	work := inImage(parent, t.TempDir(), "")
	work.Argv, work.ImageEntrypoint, work.Env = []string{"-u", "FROM_IMAGE"}, true, map[string]string{"node.name": "a b"}
	r, err := u.Start(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := r.Wait(t.Context())
	if stderr := u.output(t, "stderr"); strings.Contains(stderr, "sysrq-trigger") {
		t.Skip("this kernel has no /proc/sysrq-trigger, without which Mesos starts no container with an image")
	}
	got := u.output(t, "stdout")
	if err != nil || !exit.Succeeded() || !strings.Contains(got, "node.name=a b\n") || strings.Contains(got, "FROM_IMAGE") {
		t.Errorf("ended with %v (%v); wrote\n%s", exit, err, got)
	}
}

// A check runs in its task's file system and environment, returns its exit status, ends
// at its timeout, and leaves no process behind.
func TestMesosCheck(t *testing.T) {
	u, parent := onMesos(t, t.TempDir())
	u.Logs = rotate.RotationLimits{Bytes: 64 << 10, Files: 2}
	soft, hard := uint64(77), uint64(99)
	start, err := u.Start(t.Context(), task.TaskSpec{
		ID:        "t",
		Container: parent,
		Argv:      []string{"/bin/sh", "-c", "ulimit -n > only-here; while :; do echo line; done & sleep 1000"},
		Env:       map[string]string{"OF": "task"},
		MesosContainer: &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), RlimitInfo: &mesos.RLimitInfo{
			Rlimits: []mesos.RLimitInfo_RLimit{{Type: mesos.RLimitInfo_RLimit_RLMT_NOFILE, Soft: &soft, Hard: &hard}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := start.(*nestedContainer)
	exec := func(timeout time.Duration, argv ...string) (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return r.ExecProbe(ctx, argv, map[string]string{"MINE": "own"})
	}
	apachemesos.PollUntil(t, "the task's file", func() bool {
		code, err := exec(time.Minute, "/bin/sh", "-c", `[ "$(cat only-here) $OF $MINE" = "77 task own" ] && exit 42`)
		return code == 42 && err == nil
	})
	if code, err := exec(time.Minute, "/bin/true"); code != 0 || err != nil {
		t.Errorf("ended with %d (%v)", code, err)
	}
	mark := filepath.Base(t.TempDir())
	if _, err := exec(time.Second, "/bin/sh", "-c", "sleep 1000; echo "+mark); err == nil || err.Error() != "command did not end in time" {
		t.Errorf("a check that hangs: %v", err)
	}
	if got := u.ask(t, calls.GetContainers()).GetContainers.GetContainers(); len(got) != 1 {
		t.Errorf("%d containers besides nested ones, want only the parent's", len(got))
	}
	left, err := filepath.Glob(filepath.Join(u.Sandbox, "containers", r.id.Value, "containers", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("checks left %v (%v)", left, err)
	}
	ended := make(chan task.ExitStatus)
	go func() {
		exit, _ := r.Wait(t.Context())
		ended <- exit
	}()
	apachemesos.PollUntil(t, "rotated output", func() bool { _, err := os.Stat(filepath.Join(u.Sandbox, "stdout.1")); return err == nil })
	old := u.output(t, "stdout.1")
	if strings.HasPrefix(old, "[mesos-gpu: ") { // the log reports more than is kept
		_, old, _ = strings.Cut(old, "]\n")
	}
	if strings.Trim(old, "line\n") != "" || len(old) < 64<<10 {
		t.Errorf("rotated %d bytes, with a hole or another's text", len(old))
	}
	apachemesos.PollUntil(t, "new output", func() bool { return strings.HasPrefix(u.output(t, "stdout")+"\x00", "line\n") })
	if err := r.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if exit := <-ended; exit.Signal != unix.SIGKILL {
		t.Errorf("task ended with %v", exit)
	}
	if _, err := exec(time.Minute, "/bin/true"); err == nil {
		t.Error("a task that has ended was probed")
	}
}
