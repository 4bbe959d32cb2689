package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// deviceReportScript prints what a container sees: its GPU nodes, the result of opening each
// of four nodes, and the mount of the driver volume.
const deviceReportScript = `echo "given $NVIDIA_VISIBLE_DEVICES"
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
	openedDevice = regexp.MustCompile(`(?m)^nvidia[0-9] No such device or address$`)
	deniedDevice = regexp.MustCompile(`(?m)^nvidia[0-9] Operation not permitted$`)
)

// TestContainersSeeOnlyTheirGPU runs tasks with one of four GPUs in containers of both
// containerizers. Opening the task's own node is permitted and fails with ENXIO, since there
// is no driver. The others are denied with EPERM. The driver volume is mounted read-only if
// the image has the label, and is absent otherwise.
func TestContainersSeeOnlyTheirGPU(t *testing.T) {
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
		hardLink(t, archive, filepath.Join(store, filepath.Base(archive)))
	}
	work := t.TempDir()
	c := startCluster(t, "--work-dir", work, "--images", store)
	for containerizer, byLabel := range images {
		for label, image := range byLabel {
			t.Run(fmt.Sprintf("%s, label %t", containerizer, label), func(t *testing.T) {
				out := c.mustRun("run", "--container", containerizer, "--image", image, "--gpus", "1", "--gpu-type", "V100", "--", "sh", "-c", deviceReportScript)
				if open, denied := len(openedDevice.FindAllString(out, -1)), len(deniedDevice.FindAllString(out, -1)); open != 1 || denied != 3 {
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
	requireNothingLeft(t, work)
	if left := listContainers(t, docker, "mesos-gpu-e2e"); len(left) > 0 {
		t.Errorf("left containers %v", left)
	}
}

// TestContainerFailuresNameTheCause checks that a job fails with a message that names the
// missing image or the unreachable engine.
func TestContainerFailuresNameTheCause(t *testing.T) {
	testneeds.RequireDockerEngine(t)
	c := startCluster(t)
	r := c.run("run", "--image", "mesos-gpu-e2e-absent:1", "--", "true")
	if r.code == 0 || !strings.Contains(r.err, "mesos-gpu-e2e-absent:1") {
		t.Errorf("missing image: status %d, %q", r.code, r.err)
	}
	r = c.run("run", "--container", "mesos", "--image", "mesos-gpu-e2e-absent:1", "--", "true")
	if r.code == 0 || !strings.Contains(r.err, "mesos-gpu-e2e-absent:1") {
		t.Errorf("missing unified image: status %d, %q", r.code, r.err)
	}
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	none := startCluster(t)
	none.mustRun("run", "-d", "--name", "waits", "--image", "debian:12", "--", "true") // a fault of the machine: it waits
	none.awaitOutput("its Docker engine does not answer", "describe", "waits")
	none.mustRun("kill", "waits")
}

// TestExamples runs each example as the README describes.
func TestExamples(t *testing.T) {
	t.Parallel()
	docker := testneeds.RequireDockerEngine(t)
	testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "busybox:latest", map[string]string{"com.nvidia.volumes.needed": "nvidia_driver"}, nil))
	files, err := filepath.Glob(examplePath("*.yaml"))
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
			continue // they need settings of an operator: TestLocalWithSchedulerFlags
		case "torchrun.yaml", "mpi.yaml", "ray.yaml", "jupyter.yaml", "inference.yaml":
			continue // their programs are replaced in TestTrainingExamples
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			r := runProgram(t, buildReleased(t), nil, nil, "local", "--free-ports", "--run", file)
			if r.code != 0 || !strings.HasSuffix(r.out, " FINISHED\n") {
				t.Errorf("status %d\n%s%s", r.code, r.out, r.err)
			}
		})
	}
}

// TestScheduleExample submits and ends the schedule of the example.
func TestScheduleExample(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.mustRun("submit", examplePath("schedule.yaml")) // its first run is at night
	if out := c.mustRun("schedules"); !strings.Contains(out, "nightly") {
		t.Errorf("schedules shows:\n%s", out)
	}
	c.mustRun("kill", "nightly")
	if out := c.mustRun("schedules"); strings.Contains(out, "nightly") {
		t.Errorf("after its end schedules shows:\n%s", out)
	}
}
