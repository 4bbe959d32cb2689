//go:build mesos

package module

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
)

// A container that ends during an update is not adopted again, and the daemon is notified
// of its end.
func TestMesosModuleStopsDuringNotification(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path, "timeout=30secs")
	i.mustSucceed(i.recover(nil, nil))
	for _, call := range []string{"update", "prepare"} {
		i.launch("c1", gpus(2))
		d.recordedCalls()
		d.setAnswer("update", &containers.UnknownContainerError{Container: "c1"}) // as after cleanup, or if the records are lost
		release := d.holdCall(call)
		up := i.update("c1", gpus(1))
		d.waitForCall(call + " c1 [{gpus 1 []}]")
		i.mustSucceed(i.callOnContainer("cleanup", "c1"))
		i.mustSucceed(i.awaitResult(up))
		release()
		d.waitForCall("recover []")
		want := []string{"update c1 [{gpus 1 []}]", "prepare c1 [{gpus 1 []}]", "cleanup c1", "recover []"}
		if call == "update" {
			want = slices.Delete(want, 1, 2)
		}
		if diff := cmp.Diff(want, d.recordedCalls()); diff != "" {
			t.Errorf("ended in %s: heard (-want +got):\n%s", call, diff)
		}
	}
}

// Pending calls for a container do not affect a later container with the same ID, which a
// framework may reuse.
func TestMesosModuleContainerIDIsReused(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path, "timeout=30secs")
	i.mustSucceed(i.recover(nil, nil))
	i.launch("c1", gpus(2))
	i.launch("c1.n", gpus(2))
	release := d.holdCall("update")
	up := i.update("c1.n", gpus(1))
	d.waitForCall("update c1.n [{gpus 1 []}]")
	i.mustSucceed(i.callOnContainer("cleanup", "c1.n"))
	i.mustSucceed(i.awaitResult(up))
	i.launch("c1.n", gpus(2))
	d.recordedCalls()
	release()
	d.waitForCall("recover [c1 c1.n]")
	i.mustSucceed(i.awaitResult(i.update("c1.n", gpus(2)))) // the daemon has already accepted two
	if diff := cmp.Diff([]string{"recover [c1 c1.n]"}, d.recordedCalls()); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// If no thread can be started, calls wait for the existing ones. Without any thread the
// module does not load.
func TestMesosModuleWithoutThreads(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path, "timeout=30secs")
	i.mustSucceed(i.call(map[string]any{"op": "starve"}))
	i.mustSucceed(i.recover(nil, nil))
	release := d.holdCall("prepare")
	var calls []<-chan callResult
	for _, c := range []string{"c1", "c2", "c3"} {
		calls = append(calls, i.send(map[string]any{"op": "prepare", "container": containerID(c), "config": config(gpus(1), "")}))
	}
	i.wantPending(calls[2])
	release()
	for _, call := range calls {
		i.mustSucceed(i.awaitResult(call))
	}
	t.Setenv("STARVED", "1")
	if _, got := loadModule(t); got.Kind != "refused" {
		t.Errorf("got %+v, want refused", got)
	}
}

// An update that adds resources fails in time, whatever earlier updates are pending.
func TestMesosModuleGrowsBeforeUpdateReturns(t *testing.T) {
	d := newFakeDaemon(t)
	i := startAgent(t, d.Path)
	i.mustSucceed(i.recover([]string{"old"}, nil))
	restarted := i.update("old", gpus(1))
	i.wantFailure(i.awaitResult(i.update("old", gpus(3))), "update container old: ask the GPU daemon")
	i.wantPending(restarted)

	d.start()
	i.launch("c1", gpus(2))
	d.stop()
	shrinks := i.update("c1", gpus(1))
	i.wantFailure(i.awaitResult(i.update("c1", gpus(2))), "update container c1: ask the GPU daemon")
	i.wantPending(shrinks)
	i.wantFailure(i.awaitResult(i.update("c1", gpus(3))), "update container c1: ask the GPU daemon")
	i.wantFailure(i.awaitResult(i.update("c1", gpus(3))), "update container c1: ask the GPU daemon")
}

// Mesos offers a task's devices before the daemon has released them. The next container
// waits for the release.
func TestMesosModuleRetriesWhileDevicesAreReleasing(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path, "timeout=30secs")
	i.mustSucceed(i.recover(nil, nil))
	i.launch("ends", gpus(1))
	i.launch("grows", gpus(1))
	release := d.holdCall("update")
	i.mustSucceed(i.awaitResult(i.update("ends", noGPUs())))
	d.waitForCall("update ends []")
	held := &allocation.RejectedError{Why: "device GPU-a is held by ends"}
	d.setAnswer("prepare", held)
	next := i.send(map[string]any{"op": "prepare", "container": containerID("next"), "config": config(gpus(1), "")})
	d.waitForCall("prepare next [{gpus 1 []}]")
	i.wantPending(next)
	d.recordedCalls()
	d.waitForCall("prepare next [{gpus 1 []}]") // the retry
	d.setAnswer("prepare", nil)
	i.mustSucceed(i.awaitResult(next))

	d.setAnswer("update", held)
	grows := i.update("grows", gpus(2))
	d.waitForCall("update grows [{gpus 2 []}]")
	d.setAnswer("update", nil)
	release()
	i.mustSucceed(i.awaitResult(grows))

	d.setAnswer("prepare", held)
	i.wantFailure(i.prepare("last", config(gpus(1), "")), held.Why) // no container is releasing devices any more
}

// The daemon receives at most one update per second, however often Mesos changes the
// resources.
func TestMesosModuleRetriesOncePerSecond(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path, "timeout=30secs")
	i.mustSucceed(i.recover(nil, nil))
	i.launch("c1", gpus(60))
	i.launch("measure", gpus(2))
	d.setAnswer("update", errors.New("disk full"))
	i.update("measure", gpus(1))
	for n := range 20 {
		i.update("c1", gpus(float64(50-n)))
		i.wantPending(nil)
		i.wantPending(nil)
	}
	d.waitForCall("update c1 [{gpus 31 []}]")
	d.recordedCalls()
	var calls []string
	for range 4 {
		d.waitForCall("update measure [{gpus 1 []}]")
		calls = append(calls, d.recordedCalls()...)
	}
	if times := len(calls) - 4; times < 2 || times > 6 {
		t.Errorf("updated %d times while another container was updated 4 times: %q", times, calls)
	}
}

// No container is adopted during a recovery, which would release it again.
func TestMesosModuleRecoverRunsAlone(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path, "timeout=30secs")
	d.setAnswer("cleanup", errors.New("disk full"))
	cleaned := d.holdCall("cleanup")
	x := i.send(map[string]any{"op": "cleanup", "container": containerID("x")})
	d.waitForCall("cleanup x")
	recovered := d.holdCall("recover")
	r := i.send(map[string]any{"op": "recover", "states": []any{map[string]any{"container_id": containerID("old"), "pid": 1, "directory": "/sandbox"}}})
	d.waitForCall("recover [old]")
	c1 := i.send(map[string]any{"op": "prepare", "container": containerID("c1"), "config": config(gpus(1), "")})
	old := i.update("old", gpus(1))
	i.mustSucceed(i.isolate("old")) // not delayed
	cleaned()
	i.mustSucceed(i.awaitResult(x)) // the daemon needs another recovery for it
	if diff := cmp.Diff([]string{"cleanup x", "recover [old]", "isolate old 4711"}, d.recordedCalls()); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	recovered()
	i.mustSucceed(i.awaitResult(r))
	i.mustSucceed(i.awaitResult(c1))
	i.mustSucceed(i.awaitResult(old))
	heard := d.recordedCalls()
	if again, taken := slices.Index(heard, "recover [old]"), slices.Index(heard, "prepare c1 [{gpus 1 []}]"); again < 0 || taken < again {
		t.Errorf("heard %q, want the recovery before c1", heard)
	}
}

// makeV2Cgroup returns a mount point of cgroup v2.
func makeV2Cgroup(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[2] == "cgroup2" {
			return f[1]
		}
	}
	t.Skip("no cgroup2 file system is mounted here")
	return ""
}

// With cgroup v2 the daemon also confines containers without GPUs, so none starts before
// the daemon has answered once.
func TestMesosModuleWithCgroupV2(t *testing.T) {
	d := newFakeDaemon(t)
	i := startAgent(t, d.Path, "cgroups_hierarchy="+makeV2Cgroup(t))
	i.mustSucceed(i.recover([]string{"old"}, nil))
	const says = "; start the daemon: mesos-gpu agent; with cgroup v2 no container is launched, with GPUs or without, before the daemon has answered once"
	i.wantFailure(i.prepare("plain", config(noGPUs(), "")), says)
	i.wantFailure(i.prepare("old.n", config(noGPUs(), "")), says)
	d.start()
	i.launch("plain", noGPUs())
	d.stop()
	i.launch("another", noGPUs())
	i.wantFailure(i.prepare("gpu", config(gpus(1), "")), "start the daemon: mesos-gpu agent")
}

// Mesos may discard a future. That does not affect the calls that keep the daemon in
// sync.
func TestMesosModuleDiscarded(t *testing.T) {
	d := newFakeDaemon(t).start()
	i := startAgent(t, d.Path, "timeout=30secs")
	i.mustSucceed(i.recover(nil, nil))
	// discarded makes a call and discards it while the daemon answers.
	discarded := func(call map[string]any, heard string) {
		t.Helper()
		release := d.holdCall(call["op"].(string))
		made := i.send(call)
		d.waitForCall(heard)
		i.mustSucceed(i.call(map[string]any{"op": "discard", "of": call["id"]}))
		release()
		i.awaitResult(made)
	}
	discarded(map[string]any{"op": "prepare", "container": containerID("c1"), "config": config(gpus(1), "")}, "prepare c1 [{gpus 1 []}]")
	d.recordedCalls()
	d.setAnswer("cleanup", errors.New("disk full"))
	discarded(map[string]any{"op": "cleanup", "container": containerID("x")}, "cleanup x")
	d.waitForCall("recover [c1]") // and not because c1's cleanup is missing
	d.setAnswer("cleanup", nil)
	i.launch("c2", gpus(1))

	// A call that is discarded while it waits for a recovery does not affect other
	// waiting calls.
	d.setAnswer("cleanup", errors.New("disk full"))
	release := d.holdCall("recover")
	d.recordedCalls()
	i.mustSucceed(i.callOnContainer("cleanup", "c2"))
	d.waitForCall("recover [c1]")
	one := map[string]any{"op": "prepare", "container": containerID("c3"), "config": config(gpus(1), "")}
	made := i.send(one)
	two := i.send(map[string]any{"op": "prepare", "container": containerID("c4"), "config": config(gpus(1), "")})
	i.mustSucceed(i.call(map[string]any{"op": "discard", "of": one["id"]}))
	i.wantPending(two)
	release()
	i.mustSucceed(i.awaitResult(two))
	i.awaitResult(made)
}

// A daemon that does not answer delays a container without GPUs briefly, and one with
// GPUs until the timeout.
func TestMesosModuleWithHungDaemon(t *testing.T) {
	d := newFakeDaemon(t).hangAll()
	i := startAgent(t, d.Path, "timeout=5secs")
	recovered := i.send(map[string]any{"op": "recover", "states": []any{map[string]any{"container_id": containerID("old"), "pid": 1, "directory": "/sandbox"}}})
	c1 := i.send(map[string]any{"op": "prepare", "container": containerID("c1"), "config": config(gpus(1), "")})
	i.launch("plain", noGPUs())
	i.launch("another", noGPUs()) // both before c1's 5 seconds
	i.wantPending(c1)
	i.wantPending(recovered)
	got := i.awaitResult(c1)
	// The recovery or the launch may time out first.
	says := regexp.MustCompile(`^prepare container c1: (recover 1 containers: ask the GPU daemon at ` + regexp.QuoteMeta(d.Path) +
		`: no whole answer within (5000|4\d\d\d) ms; look at the daemon's log|` +
		`the GPU daemon at ` + regexp.QuoteMeta(d.Path) + ` has not answered in time; look at its log), or give the module a longer timeout$`)
	if got.Kind != "failed" || !says.MatchString(got.Message) {
		t.Errorf("got %+v, want failed: %s", got, says)
	}
	i.mustSucceed(i.awaitResult(recovered))
	i.mustSucceed(i.callOnContainer("cleanup", "plain"))
}
