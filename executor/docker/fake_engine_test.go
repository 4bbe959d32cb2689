package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// fakeEngine answers Docker API requests by "METHOD /path" without the version.
func fakeEngine(t *testing.T, answers map[string]http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/_ping" {
			return
		}
		path := r.URL.Path[strings.Index(r.URL.Path[1:], "/")+1:]
		if answer := answers[r.Method+" "+path]; answer != nil {
			answer(w, r)
			return
		}
		http.Error(w, fmt.Sprintf(`{"message":"no %s %s"}`, r.Method, path), http.StatusNotFound)
	}))
	t.Cleanup(server.Close)
	engine, err := client.NewClientWithOpts(client.WithHost("tcp://"+server.Listener.Addr().String()), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func quiet(t *testing.T) logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(t.Output())
	return log
}

func TestLaunchFailsWithoutEngine(t *testing.T) {
	socket := "unix://" + filepath.Join(t.TempDir(), "docker.sock")
	d := &EngineRuntime{Log: quiet(t), NewClient: func() (*client.Client, error) { return client.NewClientWithOpts(client.WithHost(socket)) }}
	_, err := d.Start(t.Context(), task.TaskSpec{Image: "debian:12"})
	for _, want := range []string{"docker engine at " + socket + " does not answer: ", ": start dockerd or use container: mesos"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("error has several lines: %v", err)
	}
	if fault := (*task.MachineFaultError)(nil); !errors.As(err, &fault) || fault.Fault != job.NoEngine {
		t.Errorf("%v is not a fault of the machine", err)
	}
	denied := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	}
	d.NewClient = func() (*client.Client, error) {
		return client.NewClientWithOpts(client.WithHost(socket), client.WithDialContext(denied))
	}
	if _, err := d.Start(t.Context(), task.TaskSpec{Image: "debian:12"}); err == nil ||
		!strings.Contains(err.Error(), "add the executor's user to the docker group") {
		t.Errorf("without permission for the socket: %v", err)
	}
	d.NewClient = func() (*client.Client, error) { return client.NewClientWithOpts(client.WithHost("nonsense")) }
	if _, err := d.Start(t.Context(), task.TaskSpec{}); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v, want the malformed address in the error", err)
	}
}

func TestImagePull(t *testing.T) {
	var pulled atomic.Bool
	image := func(w http.ResponseWriter, _ *http.Request) {
		if !pulled.Load() {
			http.Error(w, `{"message":"no such image"}`, http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"Id":"sha256:1","Config":{"Env":["A=b"]}}`)
	}
	progress := func(messages ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, m := range messages {
				fmt.Fprintln(w, m)
			}
			pulled.Store(true)
		}
	}
	tests := []struct {
		name string
		pull http.HandlerFunc
		want string // expected part of the error
	}{
		{"comes", progress(`{"status":"Pulling"}`, `{"status":"Done"}`), ""},
		{"fails midway", progress(`{"status":"Pulling"}`, `{"error":"disk full","errorDetail":{"message":"disk full"}}`),
			"image debian:12 is not on this agent and cannot be pulled: disk full: docker load it there"},
		{"is malformed", progress(`{"status":`), "cannot be pulled: unexpected EOF"},
		{"is refused", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"pull access denied"}`, http.StatusNotFound)
		}, "pull access denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pulled.Store(false)
			engine := fakeEngine(t, map[string]http.HandlerFunc{"GET /images/debian:12/json": image, "POST /images/create": tt.pull})
			got, err := (&EngineRuntime{Log: quiet(t)}).ensureImage(t.Context(), engine, shell("debian:12", ""))
			switch {
			case tt.want == "" && (err != nil || len(got.Config.Env) != 1):
				t.Errorf("got image %v (%v)", got, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestPullStalls(t *testing.T) {
	engine := fakeEngine(t, map[string]http.HandlerFunc{"POST /images/create": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"status":"Pulling"}`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}})
	if err := pullImage(t.Context(), engine, "debian:12", "", 50*time.Millisecond, func(string) {}); err == nil || err.Error() != "no progress for 50ms" {
		t.Errorf("got %v, want no progress for 50ms", err)
	}
}

// roundTripFunc is an engine without a connection, for tests with a fake clock.
type roundTripFunc func(w http.ResponseWriter, r *http.Request)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	f(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// TestCreationHasTimeAfterSlowPull: an image that was removed since it was checked is pulled again, which does not use up
// the time for the creation of the container.
func TestCreationHasTimeAfterSlowPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pulled := false
		transport := roundTripFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(stepTimeout * 2 / 3)
			switch path := r.URL.Path; {
			case strings.HasSuffix(path, "/images/create"):
				pulled = true
			case !pulled:
				http.Error(w, `{"message":"no such image"}`, http.StatusNotFound)
			case strings.HasSuffix(path, "/containers/create"):
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, `{"Id":"c"}`)
			default:
				fmt.Fprint(w, `{"Id":"sha256:1"}`)
			}
		})
		engine, err := client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: transport}), client.WithVersion("1.41"))
		if err != nil {
			t.Fatal(err)
		}
		r := &runningContainer{engine: engine, name: "mesos-gpu-c", task: shell("debian:12", ""), log: quiet(t)}
		d := &EngineRuntime{Log: quiet(t), Sandbox: t.TempDir()}
		if err := d.createContainer(t.Context(), r, hostInfo{sandbox: d.Sandbox}); err != nil || r.id != "c" {
			t.Errorf("got container %q, %v", r.id, err)
		}
	})
}

func TestImageInspectErrorIsReturned(t *testing.T) {
	engine := fakeEngine(t, map[string]http.HandlerFunc{"GET /images/debian:12/json": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message":"layer database is corrupt"}`, http.StatusInternalServerError)
	}})
	_, err := (&EngineRuntime{Log: quiet(t)}).ensureImage(t.Context(), engine, shell("debian:12", ""))
	if err == nil || !strings.Contains(err.Error(), "inspect image debian:12") || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("got error %v", err)
	}
}

// TestEngineDisappears stops the engine while the container runs. A new engine at the
// same address does not know the container; the executor still asks it to remove the
// container.
func TestEngineDisappears(t *testing.T) {
	waiting := make(chan net.Conn, 1)
	var removals atomic.Int32
	engine := fakeEngine(t, map[string]http.HandlerFunc{
		"POST /containers/c/wait": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			waiting <- conn
		},
		"DELETE /containers/mesos-gpu-c": func(w http.ResponseWriter, r *http.Request) {
			if removals.Add(1) == 1 {
				http.Error(w, `{"message":"removal is in progress"}`, http.StatusConflict)
				return
			}
			if r.URL.Query().Get("force") != "1" {
				t.Errorf("container is not removed by force")
			}
			w.WriteHeader(http.StatusNoContent)
		},
	})
	a, b := net.Pipe()
	defer b.Close()
	r := &runningContainer{engine: engine, id: "c", name: "mesos-gpu-c", log: quiet(t), output: &containerOutput{copied: make(chan struct{})}}
	close(r.output.copied)
	r.output.conn.Conn = a
	ctx, cancel := context.WithCancel(t.Context())
	r.cancelWait = cancel
	var said []string
	r.task.OnMessage = func(message string) { said = append(said, message) }
	r.exit, r.waitFailed = engine.ContainerWait(ctx, "c", container.WaitConditionNextExit)
	(<-waiting).Close()
	_, err := r.Wait(t.Context())
	for _, want := range []string{"docker engine at tcp://", "restarted while container mesos-gpu-c ran, and the container is gone", "submit the task again"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if len(said) != 1 || !strings.Contains(said[0], "went away (unexpected EOF); waiting up to 2m0s for it") {
		t.Errorf("the task's people heard %q", said)
	}
	if got := removals.Load(); got != 2 {
		t.Errorf("container was removed in %d attempts, want 2", got)
	}
}

// attachedConn answers an attach request like the engine, and returns the connection of the output.
func attachedConn(t *testing.T, w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprint(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"); err != nil {
		t.Error(err)
	}
	return conn
}

// TestEngineDisappearsBeforeAttach stops the engine while the container runs, and once more between the first two requests
// after it came back. The container goes on.
func TestEngineDisappearsBeforeAttach(t *testing.T) {
	var attached, waited atomic.Int32
	engine := fakeEngine(t, map[string]http.HandlerFunc{
		"POST /containers/c/wait": func(w http.ResponseWriter, _ *http.Request) {
			if waited.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, `{"StatusCode":7}`)
		},
		"GET /containers/c/json": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"Id":"c","State":{"Running":true}}`) },
		"POST /containers/c/attach": func(w http.ResponseWriter, _ *http.Request) {
			switch attached.Add(1) {
			case 1:
				attachedConn(t, w)
			case 2:
				panic(http.ErrAbortHandler)
			default:
				conn := attachedConn(t, w)
				if _, err := stdcopy.NewStdWriter(conn, stdcopy.Stdout).Write([]byte("after\n")); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
		},
	})
	r := &runningContainer{engine: engine, id: "c", name: "mesos-gpu-c", sandbox: t.TempDir(), log: quiet(t)}
	r.task.OnMessage = func(message string) { t.Log(message) }
	var err error
	if r.output, err = r.openOutput(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.watchExit(t.Context(), container.WaitConditionNextExit)
	if exit, err := r.Wait(t.Context()); err != nil || exit.Code != 7 {
		t.Errorf("got %v, %v, want the exit code 7", exit, err)
	}
	if text, err := os.ReadFile(filepath.Join(r.sandbox, "stdout")); err != nil || string(text) != "after\n" {
		t.Errorf("stdout is %q, %v, want the output after the restart", text, err)
	}
}

func TestRemoveError(t *testing.T) {
	engine := fakeEngine(t, map[string]http.HandlerFunc{"DELETE /containers/mesos-gpu-c": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"message":"device busy"}`, http.StatusInternalServerError)
	}})
	dir := t.TempDir()
	c, err := lockContainer(dir, "mesos-gpu-c", engine.DaemonHost())
	if err != nil {
		t.Fatal(err)
	}
	err = (&runningContainer{engine: engine, id: "c", name: "mesos-gpu-c", containerLock: c, log: quiet(t)}).removeContainer()
	if err == nil || !strings.Contains(err.Error(), "device busy") || !strings.Contains(err.Error(), "docker rm -f mesos-gpu-c") {
		t.Errorf("got error %v, want the cause and what to do", err)
	}
	err = RemoveOrphans(t.Context(), func() (*client.Client, error) { return engine, nil }, dir, quiet(t))
	if want := "its executor is gone: remove container mesos-gpu-c: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the next sweep says %v, want %q in it", err, want)
	}
}

func TestContainerName(t *testing.T) {
	for _, tt := range []struct{ container, id, want string }{
		{"a1b2-c3", "job.0.1", "mesos-gpu-a1b2-c3"},
		{"", "job.0.1", "mesos-gpu-job_0_1"},
		{"", "a/b c", "mesos-gpu-a_b_c"},
	} {
		var work task.TaskSpec
		work.ID, work.Container.Value = tt.id, tt.container
		if got := containerName(work); got != tt.want {
			t.Errorf("name of container %q, task %q is %s, want %s", tt.container, tt.id, got, tt.want)
		}
	}
}

func TestHostConfig(t *testing.T) {
	work := task.TaskSpec{CPUs: 0.001, MemMiB: 4}
	h := newHostConfig(work, hostInfo{sandbox: "/s", devices: []string{"/host/dev/nvidia1", "/host/dev/nvidiactl"}})
	if h.Privileged || len(h.CapAdd) != 0 {
		t.Errorf("container is privileged (%v) or has more capabilities (%v)", h.Privileged, h.CapAdd)
	}
	if h.CPUShares != 2 || h.Memory != 32<<20 {
		t.Errorf("limits are %d shares and %d bytes, want Mesos's least", h.CPUShares, h.Memory)
	}
	want := []container.DeviceMapping{
		{PathOnHost: "/host/dev/nvidia1", PathInContainer: "/dev/nvidia1", CgroupPermissions: "rw"},
		{PathOnHost: "/host/dev/nvidiactl", PathInContainer: "/dev/nvidiactl", CgroupPermissions: "rw"},
	}
	if diff := cmp.Diff(want, h.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	big := newHostConfig(task.TaskSpec{CPUs: 2.5, MemMiB: 1000}, hostInfo{})
	if big.CPUShares != 2560 || big.Memory != 1000<<20 || len(big.Devices) != 0 {
		t.Errorf("limits are %d shares, %d bytes, %d devices", big.CPUShares, big.Memory, len(big.Devices))
	}
}

func TestVolumeErrorIsReported(t *testing.T) {
	sentinel := errors.New("no driver")
	d := &EngineRuntime{Log: quiet(t), PrepareVolume: func(context.Context) (string, error) { return "", sentinel }}
	var img dockerimage.InspectResponse
	if err := json.Unmarshal([]byte(`{"Config":{"Env":["NVIDIA_VISIBLE_DEVICES=all"]}}`), &img); err != nil {
		t.Fatal(err)
	}
	_, err := d.gatherHostInfo(t.Context(), task.TaskSpec{GPUs: 1, Image: "i"}, img)
	if fault := (*task.MachineFaultError)(nil); !errors.Is(err, sentinel) || !errors.As(err, &fault) || fault.Fault != job.NoDriver {
		t.Errorf("got %v, want a fault of the machine that wraps the cause", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = d.gatherHostInfo(ctx, task.TaskSpec{GPUs: 1, Image: "i"}, img)
	if !errors.Is(err, sentinel) || errors.As(err, new(*task.MachineFaultError)) {
		t.Errorf("after the end of the launch: %v", err)
	}
}

// An image that cannot run is rejected before a container is created: this engine cannot
// create one.
func TestIncompatibleImageIsNotStarted(t *testing.T) {
	engine := fakeEngine(t, map[string]http.HandlerFunc{"GET /images/app:1/json": func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"Id":"sha256:1","Config":{"Env":["NVIDIA_VISIBLE_DEVICES=all","NVIDIA_REQUIRE_CUDA=cuda>=12.4"]}}`)
	}})
	d := &EngineRuntime{
		Log: quiet(t), DevDir: t.TempDir(), NewClient: func() (*client.Client, error) { return engine, nil },
		ReadHost: func(context.Context) image.HostDriver { return image.HostDriver{CUDA: "12.2"} },
	}
	var unfit *image.IncompatibleError
	if _, err := d.Start(t.Context(), task.TaskSpec{Image: "app:1", GPUs: 1}); !errors.As(err, &unfit) {
		t.Errorf("got %v, want that the image is unfit", err)
	}
}

// Requirements of an image on the driver are checked for tasks with GPUs before a
// container is created.
func TestIncompatibleImage(t *testing.T) {
	d := &EngineRuntime{
		Log: quiet(t), DevDir: t.TempDir(),
		ReadHost: func(context.Context) image.HostDriver {
			return image.HostDriver{
				Driver: "535.104.05",
				CUDA:   "12.2",
				GPUs:   []image.HostGPU{{Name: "GPU-a", Arch: "7.0", Brand: "tesla"}, {Name: "GPU-b", Arch: "9.0", Brand: "nvidia"}},
			}
		},
		PrepareVolume: func(context.Context) (string, error) { return "/volumes/535.104.05", nil },
	}
	tests := []struct {
		name   string
		env    []string
		work   task.TaskSpec
		unfit  bool
		volume bool
	}{
		{"fits", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.2"}, task.TaskSpec{GPUs: 1}, false, true},
		{"too new", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}, task.TaskSpec{GPUs: 1}, true, false},
		{"too new, and the job knows better", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"},
			task.TaskSpec{GPUs: 1, Env: map[string]string{"NVIDIA_DISABLE_REQUIRE": "1"}}, false, true},
		{"too new, without a GPU", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}, task.TaskSpec{}, false, false},
		{"asks for nothing", []string{"NVIDIA_REQUIRE_CUDA=cuda>=12.4"}, task.TaskSpec{GPUs: 1}, false, false},
		{"architecture of the task's GPU", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_ARCH=arch>=8.0"},
			task.TaskSpec{GPUs: 1, DeviceIDs: []string{"GPU-b"}}, false, true},
		{"architecture of another's", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_ARCH=arch>=8.0"},
			task.TaskSpec{GPUs: 1, DeviceIDs: []string{"GPU-a"}}, true, false},
		{"architecture of one of both", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_ARCH=arch>=8.0"},
			task.TaskSpec{GPUs: 2, DeviceIDs: []string{"GPU-a", "GPU-b"}}, true, false},
		{"GPU without a name", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_BRAND=brand=tesla"}, task.TaskSpec{GPUs: 1}, true, false},
		{"brand of the task's GPU", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_BRAND=brand=tesla"},
			task.TaskSpec{GPUs: 1, DeviceIDs: []string{"GPU-a"}}, false, true},
		{"an unknown device", []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_BRAND=brand=tesla"},
			task.TaskSpec{GPUs: 1, DeviceIDs: []string{"GPU-c"}}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.work.Image = "app:1"
			config, err := json.Marshal(map[string]any{"Config": map[string]any{"Env": tt.env}})
			if err != nil {
				t.Fatal(err)
			}
			var img dockerimage.InspectResponse
			if err := json.Unmarshal(config, &img); err != nil {
				t.Fatal(err)
			}
			f, err := d.gatherHostInfo(t.Context(), tt.work, img)
			var unfit *image.IncompatibleError
			if errors.As(err, &unfit) != tt.unfit || (err != nil) != tt.unfit {
				t.Fatalf("got %v, want it unfit: %v", err, tt.unfit)
			}
			if tt.unfit && (!strings.HasPrefix(err.Error(), "image app:1: ") ||
				!strings.HasSuffix(err.Error(), "; NVIDIA_DISABLE_REQUIRE=true in the job's environment starts it all the same")) {
				t.Errorf("the error does not name the image, or the way round: %v", err)
			}
			if (f.volume != "") != tt.volume {
				t.Errorf("got volume %q, want one: %v", f.volume, tt.volume)
			}
		})
	}
}

// The number of commands that exceed their timeout is bounded.
func TestLeftCommandsAreBounded(t *testing.T) {
	var made int
	var ends atomic.Bool
	var giveUp context.CancelFunc
	engine := fakeEngine(t, map[string]http.HandlerFunc{
		"POST /containers/c/exec": func(w http.ResponseWriter, _ *http.Request) {
			made++
			fmt.Fprint(w, `{"Id":"e"}`)
		},
		"POST /exec/e/start": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
			if ends.Load() {
				conn.Close()
				return
			}
			t.Cleanup(func() { conn.Close() })
			giveUp()
		},
		"GET /exec/e/json": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"ID":"e","Running":%v}`, !ends.Load())
		},
	})
	r := &runningContainer{engine: engine, id: "c", name: "mesos-gpu-c", log: quiet(t)}
	for range 5 {
		var ctx context.Context
		ctx, giveUp = context.WithCancel(t.Context())
		_, err := r.ExecProbe(ctx, []string{"sleep", "777"}, nil)
		giveUp()
		if err == nil || errors.Is(err, task.ErrNotReached) {
			t.Errorf("a command without an end: %v, want a failure of the task's", err)
		}
	}
	if made != maxLeftCommands {
		t.Errorf("%d commands run on, want %d", made, maxLeftCommands)
	}
	ends.Store(true)
	if _, err := r.ExecProbe(t.Context(), []string{"true"}, nil); err != nil || made != maxLeftCommands+1 {
		t.Errorf("once they ended: %v, %d commands", err, made)
	}
}

func TestDevices(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"nvidia1", "nvidiactl", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := listDeviceNodes(dir, []int{1}, []int{30, 31})
	want := []string{dir + "/nvidia1", dir + "/nvidia-caps/nvidia-cap30", dir + "/nvidia-caps/nvidia-cap31", dir + "/nvidiactl"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := listDeviceNodes(dir, []int{1}, []int{40}); err == nil || !strings.Contains(err.Error(), "nvidia-cap40") {
		t.Errorf("no capability node: %v", err)
	}
}
