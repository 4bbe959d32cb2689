package e2e

import (
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// slowlyTooMuch is a shell command that needs more memory than its limit, after a second in which its executor finds its
// cgroup. It needs more than an executor with the race detector, so that the kernel kills it first.
const slowlyTooMuch = "sleep 1; exec dd if=/dev/zero of=/dev/null bs=900M count=1"

// checkOutOfMemory checks that run, wait and describe print the limit and the peak of a task that ran out of memory, as the
// pattern for the two numbers.
func checkOutOfMemory(t *testing.T, c *cluster, name, pattern string, args ...string) {
	t.Helper()
	r := c.run(append([]string{"run", "--name", name, "--mem", "256MiB"}, args...)...)
	want := regexp.MustCompile(name + `\.0\.1\S+ FAILED: (killed by signal 9 \(SIGKILL\): )?out of memory: ` + pattern + "\n")
	if r.code == 0 || !want.MatchString(r.err) {
		t.Errorf("run ended with %d and printed %q, want %s", r.code, r.err, want)
	}
	if r := c.run("wait", name); !want.MatchString(r.err) {
		t.Errorf("wait printed %q, want %s", r.err, want)
	}
	want = regexp.MustCompile(`FAILED .*: ` + pattern + "\n")
	if r := c.run("describe", name); !want.MatchString(r.out) || strings.Contains(r.out, "; its memory limit") {
		t.Errorf("describe printed %q, want %s", r.out, want)
	}
	view := c.awaitJob(name, func(v *api.JobView) bool { return v.Terminal })
	if got := view.Tasks[0].Reason; got != "REASON_CONTAINER_LIMITATION_MEMORY" {
		t.Errorf("the reason of %s is %s", name, got)
	}
}

// ofTheContainer is the limit and the peak of a container of the engine.
const ofTheContainer = `the limit is 256 MiB, (the peak was 25[3-6](\.[0-9])? MiB|and it was reached)`

// withExecutor is the limit and the peak of a container of a Mesos agent.
const withExecutor = `the limit is 288 MiB, the peak was 28[5-8](\.[0-9])? MiB, with the executor`

func TestOutOfMemoryNamesBothNumbers(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	testneeds.RequireDevicesCgroup(t)
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-memory", nil, nil))
	c := startCluster(t)
	t.Run("docker", func(t *testing.T) {
		checkOutOfMemory(t, c, "docker", ofTheContainer, "--image", image, "--", "sh", "-c", slowlyTooMuch)
	})
	t.Run("mesos", func(t *testing.T) {
		checkOutOfMemory(t, c, "mesos", withExecutor, "--", "sh", "-c", slowlyTooMuch)
	})
	t.Run("a child", func(t *testing.T) {
		r := c.run("run", "--mem", "256MiB", "--", "sh", "-c", "dd if=/dev/zero of=/dev/null bs=900M count=1; exit 3")
		if want := regexp.MustCompile(`exited with status 3: out of memory: ` + withExecutor); r.code != 3 || !want.MatchString(r.err) {
			t.Errorf("run ended with %d and printed %q, want %s", r.code, r.err, want)
		}
	})
}
