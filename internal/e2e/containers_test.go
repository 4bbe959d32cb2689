package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
)

// inside prints what one container sees: its GPU nodes, what opening each of
// four says, and the driver volume's mount.
const inside = `echo "given $NVIDIA_VISIBLE_DEVICES"
ls /dev | grep -E '^nvidia[0-9]+$' | while read n; do echo "node $n"; done
for n in 0 1 2 3; do
  [ -e /dev/nvidia$n ] || mknod /dev/nvidia$n c 195 $n
  if e=$( { : </dev/nvidia$n; } 2>&1 ); then e=open; fi
  echo "nvidia$n ${e##*: }"
done
grep ' /usr/local/nvidia ' /proc/mounts | while read dev at type flags rest; do echo "volume ${flags%%,*}"; done
ls /usr/local/nvidia/lib64 2>/dev/null | grep -q libcuda && echo "libcuda there"
(: >/usr/local/nvidia/x) 2>/dev/null && echo "volume writable"
exit 0`

var (
	enxio = regexp.MustCompile(`(?m)^nvidia[0-9] No such device or address$`)
	eperm = regexp.MustCompile(`(?m)^nvidia[0-9] Operation not permitted$`)
)

// One of four GPUs in a container: its node opens (and finds no driver:
// ENXIO), the three others are denied (EPERM), and the driver volume is there,
// read-only, exactly when the image asks for it.
func TestContainersSeeTheirGPUOnly(t *testing.T) {
	if hasDriver() {
		t.Skip("this machine has a driver: the nodes would open")
	}
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	needsDriver := map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}
	labelled := testimage.BusyboxArchive(t, "mesos-gpu-e2e-labelled", needsDriver, nil)
	plain := testimage.BusyboxArchive(t, "mesos-gpu-e2e-plain", nil, nil)
	images := map[string]map[bool]string{ // by containerizer, then whether the label is set
		"docker": {true: testimage.LoadImage(t, docker, labelled), false: testimage.LoadImage(t, docker, plain)},
		"mesos":  {true: "mesos-gpu-e2e-labelled", false: "mesos-gpu-e2e-plain"},
	}
	store := t.TempDir()
	for _, archive := range []string{labelled, plain} {
		link(t, archive, filepath.Join(store, filepath.Base(archive)))
	}
	work := t.TempDir()
	c := start(t, "--work-dir", work, "--images", store)
	for containerizer, byLabel := range images {
		for label, image := range byLabel {
			t.Run(fmt.Sprintf("%s, label %t", containerizer, label), func(t *testing.T) {
				out := c.must("run", "--container", containerizer, "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", inside)
				if open, denied := len(enxio.FindAllString(out, -1)), len(eperm.FindAllString(out, -1)); open != 1 || denied != 3 {
					t.Errorf("%d nodes open and %d denied, want 1 and 3", open, denied)
				}
				if got := strings.Contains(out, "volume ro\n") && strings.Contains(out, "libcuda there"); got != label {
					t.Errorf("driver volume there: %t, want %t", got, label)
				}
				if strings.Contains(out, "volume writable") {
					t.Error("the driver volume is writable")
				}
				if t.Failed() {
					t.Logf("inside:\n%s", out)
				}
			})
		}
	}
	c.stop()
	nothingLeft(t, work)
	if left := containersOf(t, docker, "mesos-gpu-e2e"); len(left) > 0 {
		t.Errorf("left containers %v", left)
	}
}

// A missing image or engine fails the job with one clear line.
func TestDockerFailuresAreClear(t *testing.T) {
	testneeds.RequireDockerEngine(t)
	c := start(t)
	r := c.do("run", "--image", "mesos-gpu-e2e-absent:1", "--", "true")
	if r.code == 0 || !strings.Contains(r.err, "mesos-gpu-e2e-absent:1") {
		t.Errorf("missing image: status %d, %q", r.code, r.err)
	}
	r = c.do("run", "--container", "mesos", "--image", "mesos-gpu-e2e-absent:1", "--", "true")
	if r.code == 0 || !strings.Contains(r.err, "mesos-gpu-e2e-absent:1") {
		t.Errorf("missing unified image: status %d, %q", r.code, r.err)
	}
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	none := start(t)
	r = none.do("run", "--image", "debian:12", "--", "true")
	if r.code == 0 || !strings.Contains(r.err, "/nonexistent/docker.sock") {
		t.Errorf("no engine: status %d, %q", r.code, r.err)
	}
}

// Each example runs as the README says.
func TestExamples(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "busybox:latest", map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, nil))
	files, err := filepath.Glob(example("*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 3 {
		t.Fatalf("found only %v", files)
	}
	for _, file := range files {
		switch filepath.Base(file) {
		case "service.yaml", "share.yaml", "schedule.yaml":
			continue // TestServiceExample, TestShareExample and TestScheduleExample
		case "fetch.yaml", "secrets.yaml":
			continue // they need an operator's leave: TestLocalRuns in cmd/mesos-gpu
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			r := runProgram(t, releasedBinary(t), nil, nil, "local", "--free-ports", "--run", file)
			if r.code != 0 || !strings.HasSuffix(r.out, " FINISHED\n") {
				t.Errorf("status %d\n%s%s", r.code, r.out, r.err)
			}
		})
	}
}

// TestScheduleExample is given to the scheduler as its comment says.
func TestScheduleExample(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.must("submit", example("schedule.yaml")) // its first run is at night
	if out := c.must("schedules"); !strings.Contains(out, "nightly") {
		t.Errorf("schedules shows:\n%s", out)
	}
	c.must("kill", "nightly")
	if out := c.must("schedules"); strings.Contains(out, "nightly") {
		t.Errorf("after its end schedules shows:\n%s", out)
	}
}
