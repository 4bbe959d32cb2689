package docker

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// privateEngine is a dockerd that a test may stop. Its containerd keeps running, as on
// most hosts.
type privateEngine struct {
	dir                 string
	options             []string
	dockerd, containerd *exec.Cmd
}

func newPrivateEngine(t *testing.T, options ...string) *privateEngine {
	t.Helper()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "dockerd", "docker.io")
	dir, err := os.MkdirTemp("", "dockerd") // short, because a socket's path has at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	e := &privateEngine{dir: dir, options: options}
	t.Cleanup(func() {
		end(t, e.dockerd, syscall.SIGTERM)
		end(t, e.containerd, syscall.SIGTERM)
		// A killed dockerd leaves these mounts.
		_ = unix.Unmount(dir+"/exec/netns/default", unix.MNT_DETACH)
		_ = unix.Unmount(dir+"/data", unix.MNT_DETACH)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	const config = "version = 2\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n"
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	e.containerd = e.spawn(t, 0, "containerd", "--config", dir+"/config.toml", "--root", dir+"/c", "--state", dir+"/cs", "--address", dir+"/c.sock")
	e.start(t)
	return e
}

func (e *privateEngine) spawn(t *testing.T, namespaces uintptr, program string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.OpenFile(e.dir+"/log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Cloneflags: namespaces}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func (e *privateEngine) client() (*client.Client, error) {
	return client.NewClientWithOpts(client.WithHost("unix://"+e.dir+"/s"), client.WithAPIVersionNegotiation())
}

// on returns the host with another engine.
func (h host) on(t *testing.T, e *privateEngine) host {
	t.Helper()
	engine, err := e.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	runtime := *h.EngineRuntime
	runtime.NewClient = e.client
	return host{engine: engine, volume: h.volume, EngineRuntime: &runtime}
}

// start waits until the engine answers; there is no other signal that it is ready.
func (e *privateEngine) start(t *testing.T) {
	t.Helper()
	// Without a bridge of its own it would remove the host's docker0, so it runs in its
	// own network namespace.
	e.dockerd = e.spawn(t, unix.CLONE_NEWNET, "dockerd", append([]string{
		"--host", "unix://" + e.dir + "/s", "--data-root", e.dir + "/data", "--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/pid",
		"--containerd", e.dir + "/c.sock", "--bridge=none", "--iptables=false", "--ip6tables=false", "--shutdown-timeout=1",
	}, e.options...)...)
	engine, err := e.client()
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		if _, err := engine.Ping(t.Context()); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			text, _ := os.ReadFile(e.dir + "/log")
			t.Fatalf("the private dockerd does not answer:\n%s", text)
		}
	}
}

// end signals a process that this test started and waits for it.
func end(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if cmd == nil || cmd.ProcessState != nil {
		return
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

// messageLog collects the messages that are sent to the framework.
type messageLog struct {
	mu   sync.Mutex
	text []string
}

func (s *messageLog) tell(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, message)
}

// Write implements io.Writer for a log; each call is one line.
func (s *messageLog) Write(line []byte) (int, error) {
	s.tell(string(line))
	return len(line), nil
}

func (s *messageLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.text, "\n")
}

// If the engine keeps its containers, a task outlives a restart of the engine and its
// output continues, whatever the task did with stdout. Otherwise the status contains the
// cause of its end.
func TestEngineRestarts(t *testing.T) {
	tests := []struct {
		name    string
		options []string
		sig     syscall.Signal
		want    []string // one of these is the expected end
		lives   bool
	}{
		{"in order, containers live", []string{"--live-restore"}, syscall.SIGTERM, []string{"exited with status 7"}, true},
		{"killed, containers live", []string{"--live-restore"}, syscall.SIGKILL, []string{"exited with status 7"}, true},
		{"in order", nil, syscall.SIGTERM, []string{
			"killed by signal 9 (SIGKILL): the docker engine at unix:// stopped, and its containers with it",                     // queried after the engine stopped
			"killed by signal 9 (SIGKILL): the docker engine sent it signal 15: the container or the engine was stopped by hand", // queried while the engine stops
			// queried after the engine started again
			"killed by signal 9 (SIGKILL): the docker engine at unix:// restarted while it ran",
		}, false},
		{"killed", nil, syscall.SIGKILL, []string{"killed by signal 9 (SIGKILL): the docker engine at unix:// restarted while it ran"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := newPrivateEngine(t, tt.options...)
			h := newHost(t).on(t, e)
			img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:restart", nil, nil))
			work := shell(img, `trap '' TERM
cd $MESOS_SANDBOX; ln stdout kept; ln -s kept new; mv new stdout # no file to open again
echo ready; until [ -e $MESOS_SANDBOX/go ]; do sleep 0.1; done; echo after; exit 7`)
			work.KillGrace = time.Second
			var heard messageLog
			work.OnMessage = heard.tell
			r := h.start(t, work)
			h.awaitOutput(t, "ready")
			ended := make(chan task.ExitStatus, 1)
			go func() {
				exit, err := r.Wait(t.Context())
				if err != nil {
					t.Error(err)
				}
				ended <- exit
			}()
			end(t, e.dockerd, tt.sig)
			e.start(t)
			if tt.lives {
				awaitText(t, heard.String, "is back, the task kept running")
			}
			if err := os.WriteFile(filepath.Join(h.Sandbox, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			exit := <-ended
			if got := strings.ReplaceAll(exit.String(), e.dir+"/s", ""); !slices.Contains(tt.want, got) {
				t.Errorf("task %q, want %q", got, tt.want)
			}
			if got := h.read(t, "stdout"); tt.lives && got != "ready\nafter\n" {
				t.Errorf("stdout is %q, want what came after the restart, too", got)
			}
			h.nothingLeft(t, work)
		})
	}
}
