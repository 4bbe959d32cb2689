package unified

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gogo/protobuf/proto"
	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpagent"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// answeringAgent answers the v1 API by type of call.
type answeringAgent map[agent.Call_Type]func(*agent.Call) (int, proto.Message)

func (a answeringAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	call := &agent.Call{}
	if err != nil || proto.Unmarshal(body, call) != nil || a[call.GetType()] == nil {
		http.Error(w, "the test expects no "+call.GetType().String(), http.StatusNotImplemented)
		return
	}
	status, answer := a[call.GetType()](call)
	if answer == nil {
		w.WriteHeader(status)
		return
	}
	data, err := proto.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(data)
}

func runtime(t *testing.T, a answeringAgent) *NestedRuntime {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	sandbox := t.TempDir()
	for _, name := range []string{"stdout", "stderr"} {
		if err := os.WriteFile(filepath.Join(sandbox, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	client := httpcli.New(httpcli.Endpoint(server.URL+"/slave(1)/api/v1"), httpcli.Do(http.DefaultClient.Do))
	return &NestedRuntime{pollOutput: true, Agent: httpagent.NewSender(client.Send), Sandbox: sandbox, Log: quiet(t)}
}

func quiet(t *testing.T) logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(t.Output())
	return log
}

func work() task.TaskSpec {
	return task.TaskSpec{ID: "job.0.1", Container: mesos.ContainerID{Value: "parent"},
		Argv: []string{"python", "train.py"}, Env: map[string]string{"A": "b"}, GPUs: 1, DeviceIDs: []string{"GPU-a"}}
}

func waited(w agent.Response_WaitNestedContainer) *agent.Response {
	return &agent.Response{Type: agent.Response_WAIT_NESTED_CONTAINER, WaitNestedContainer: &w}
}

func TestLaunchAndWait(t *testing.T) {
	var launched *agent.Call_LaunchNestedContainer
	var r *NestedRuntime
	status := int32(3 << 8)
	r = runtime(t, answeringAgent{
		agent.Call_LAUNCH_NESTED_CONTAINER: func(c *agent.Call) (int, proto.Message) {
			launched = c.LaunchNestedContainer
			dir := filepath.Join(r.Sandbox, "containers", launched.ContainerID.Value)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Error(err)
			}
			for _, name := range []string{"stdout", "stderr"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("nested "+name), 0o644); err != nil {
					t.Error(err)
				}
			}
			return http.StatusOK, nil
		},
		agent.Call_WAIT_NESTED_CONTAINER: func(c *agent.Call) (int, proto.Message) {
			if c.WaitNestedContainer.ContainerID.Value != launched.ContainerID.Value {
				t.Errorf("waited for %s, launched %s", c.WaitNestedContainer.ContainerID.Value, launched.ContainerID.Value)
			}
			return http.StatusOK, waited(agent.Response_WaitNestedContainer{ExitStatus: &status})
		},
	})
	running, err := r.Start(t.Context(), work())
	if err != nil {
		t.Fatal(err)
	}
	if launched.ContainerID.Parent == nil || launched.ContainerID.Parent.Value != "parent" || len(launched.ContainerID.Value) != 36 {
		t.Errorf("launched container %v, want a uuid below parent", launched.ContainerID)
	}
	for _, name := range []string{"stdout", "stderr"} {
		if got, err := os.ReadFile(filepath.Join(r.Sandbox, name)); err != nil || string(got) != "nested "+name {
			t.Errorf("sandbox's %s reads %q (%v), want the nested container's", name, got, err)
		}
	}
	exit, err := running.Wait(t.Context())
	if err != nil || exit.Code != 3 {
		t.Errorf("task ended with %v (%v), want status 3", exit, err)
	}
}

func TestBuildLaunch(t *testing.T) {
	no := false
	variable := func(name, value string) mesos.Environment_Variable {
		return mesos.Environment_Variable{Name: name, Value: &value}
	}
	value := "python"
	want := &mesos.CommandInfo{
		Shell: &no, Value: &value, Arguments: []string{"python", "train.py"},
		Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{
			variable("HOME", "/sandbox"), variable("A", "b"), variable("MESOS_TASK_ID", "job.0.1"), variable("NVIDIA_VISIBLE_DEVICES", "GPU-a"),
		}},
	}
	w := work()
	command, container := buildLaunch(w, "/sandbox")
	if diff := cmp.Diff(want, command); diff != "" || container != nil {
		t.Errorf("command (-want +got):\n%s\ncontainer %v, want none", diff, container)
	}
	w.MesosContainer, w.Argv = &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum()}, nil
	command, container = buildLaunch(w, "/sandbox")
	if command.Value != nil || command.Arguments != nil || *command.Shell || container != w.MesosContainer {
		t.Errorf("command of an image's own is %v, want none; container %v", command, container)
	}
	w.Argv, w.ImageEntrypoint = []string{"-v", "x"}, true
	if command, _ = buildLaunch(w, "/sandbox"); command.Value != nil || *command.Shell || !slices.Equal(command.Arguments, w.Argv) {
		t.Errorf("arguments of an image's entrypoint: command %v, want no value and the arguments alone", command)
	}
}

// TestBuildLaunchEntersFolder checks that a task starts in the folder of its submission.
func TestBuildLaunchEntersFolder(t *testing.T) {
	w := work()
	w.Chdir = "/home/alice"
	command, _ := buildLaunch(w, "/sandbox")
	if want := job.StartInFolder(w.Chdir, w.Argv); command.GetValue() != want[0] || !slices.Equal(command.Arguments, want) {
		t.Errorf("command %s %q, want %q", command.GetValue(), command.Arguments, want)
	}
}

// TestHomeFolder checks that tasks without an image have their sandbox as HOME, or their owner's home as which they run, and that the
// job's own value counts.
func TestHomeFolder(t *testing.T) {
	home := func(change func(*task.TaskSpec)) string {
		w := work()
		change(&w)
		command, _ := buildLaunch(w, "/sandbox")
		var got []string
		for _, v := range command.Environment.Variables {
			if v.Name == "HOME" {
				got = append(got, v.GetValue())
			}
		}
		return strings.Join(got, ",")
	}
	for want, change := range map[string]func(*task.TaskSpec){
		"/sandbox": func(*task.TaskSpec) {},
		"/home/carol": func(w *task.TaskSpec) {
			w.Env, w.Account = map[string]string{"HOME": "/home/carol"}, &task.Account{Home: "/home/alice"}
		},
		"/home/alice": func(w *task.TaskSpec) { w.Account = &task.Account{Name: "alice", Home: "/home/alice"} },
		"":            func(w *task.TaskSpec) { w.Image, w.Account = "pytorch", &task.Account{Home: "/home/alice"} },
	} {
		if got := home(change); got != want {
			t.Errorf("HOME is %q, want %q", got, want)
		}
	}
}

// The mounts of shares and secrets are added to the task's own volumes; a relative target stays one, which Mesos puts into
// the sandbox.
func TestBuildLaunchAddsMounts(t *testing.T) {
	w := work()
	w.MesosContainer = &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), Volumes: []mesos.Volume{{ContainerPath: "/own"}}}
	w.ShareLimit.Mounts = []task.HostMount{{Source: "/host/pipe", Target: "/pipe"}}
	w.SecretMounts = []task.HostMount{{Source: "/secrets/web/db", Target: "keys/db", ReadOnly: true}}
	_, container := buildLaunch(w, "/sandbox")
	var got []string
	for _, v := range container.Volumes {
		got = append(got, v.ContainerPath+" "+v.GetMode().String()+" "+v.GetSource().GetHostPath().GetPath())
	}
	if diff := cmp.Diff([]string{"/own RW ", "/pipe RW /host/pipe", "keys/db RO /secrets/web/db"}, got); diff != "" || len(w.MesosContainer.Volumes) != 1 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBuildLaunchKeepsCommandInfo(t *testing.T) {
	w := work()
	script, user := "echo hi", "daemon"
	secret := mesos.Environment_Variable{Name: "KEY", Type: mesos.Environment_Variable_SECRET.Enum()}
	forged := "all"
	w.Command = &mesos.CommandInfo{Value: &script, User: &user, Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{
		secret, {Name: "NVIDIA_VISIBLE_DEVICES", Value: &forged},
	}}}
	w.MesosContainer = &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum()}
	command, container := buildLaunch(w, "/sandbox")
	if container != w.MesosContainer || command.GetUser() != "daemon" || !command.GetShell() || command.GetValue() != script {
		t.Errorf("command %v and container %v are not the task's own", command, container)
	}
	var names []string
	for _, v := range command.Environment.Variables {
		names = append(names, v.Name)
	}
	if diff := cmp.Diff([]string{"KEY", "A", "MESOS_TASK_ID", "NVIDIA_VISIBLE_DEVICES"}, names); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if len(w.Command.Environment.Variables) != 2 {
		t.Errorf("the task's own command was changed")
	}
}

func TestLaunchRejectedByAgent(t *testing.T) {
	tests := []struct {
		name   string
		status int
		want   string
	}{
		{"malformed", http.StatusBadRequest, "launch nested container of image nope: malformed request"},
		{"forbidden", http.StatusForbidden, "let executors use the agent's operator API"},
		{"internal error", http.StatusInternalServerError, "launch nested container of image nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			killed := false
			r := runtime(t, answeringAgent{
				agent.Call_LAUNCH_NESTED_CONTAINER: func(*agent.Call) (int, proto.Message) { return tt.status, nil },
				agent.Call_KILL_NESTED_CONTAINER:   func(*agent.Call) (int, proto.Message) { killed = true; return http.StatusNotFound, nil },
			})
			w := work()
			w.Image = "nope"
			_, err := r.Start(t.Context(), w)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q in it", err, tt.want)
			}
			if !killed {
				t.Errorf("a launch that failed was not taken back")
			}
			if fi, err := os.Lstat(filepath.Join(r.Sandbox, "stdout")); err != nil || !fi.Mode().IsRegular() {
				t.Errorf("stdout was replaced (%v)", err)
			}
		})
	}
	t.Run("incompatible image", func(t *testing.T) {
		unfit := &image.IncompatibleError{Cause: image.DriverMismatch, RequiredBy: "NVIDIA_REQUIRE_CUDA", Required: "cuda>=13.0", Found: "driver 535"}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "prepare container c1: "+unfit.Error(), http.StatusBadRequest)
		}))
		defer server.Close()
		r := runtime(t, nil)
		r.Agent = httpagent.NewSender(httpcli.New(httpcli.Endpoint(server.URL), httpcli.Do(http.DefaultClient.Do)).Send)
		if _, err := r.Start(t.Context(), work()); image.MismatchCauseOf(err) != image.DriverMismatch {
			t.Errorf("got %v, want a mismatch of the driver", err)
		}
	})
	t.Run("no container of its own", func(t *testing.T) {
		if _, err := (&NestedRuntime{}).Start(t.Context(), task.TaskSpec{}); err == nil || !strings.Contains(err.Error(), "did not name the executor's container") {
			t.Errorf("got error %v", err)
		}
	})
}

func TestSignalReachesNestedContainer(t *testing.T) {
	var got []int32
	status := http.StatusOK
	r := runtime(t, answeringAgent{
		agent.Call_LAUNCH_NESTED_CONTAINER: func(*agent.Call) (int, proto.Message) { return http.StatusAccepted, nil },
		agent.Call_KILL_NESTED_CONTAINER: func(c *agent.Call) (int, proto.Message) {
			got = append(got, *c.KillNestedContainer.Signal)
			return status, nil
		},
	})
	running, err := r.Start(context.Background(), work())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		sig    syscall.Signal
		status int
		ok     bool
	}{{syscall.SIGTERM, 200, true}, {syscall.SIGKILL, 404, true}, {syscall.SIGKILL, 500, false}} {
		status = tt.status
		if err := running.Signal(t.Context(), tt.sig); (err == nil) != tt.ok {
			t.Errorf("signal %s answered with %d: error %v", tt.sig, tt.status, err)
		}
	}
	if diff := cmp.Diff([]int32{15, 9, 9}, got); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}
