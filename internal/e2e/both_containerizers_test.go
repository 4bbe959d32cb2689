package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// fullJobFile is a job that uses each container setting that both containerizers support. It
// runs until the test has seen that its health check passes.
const fullJobFile = `name: NAME
image: IMAGE
container: CONTAINERIZER
cpus: 0.2
mem: 256MiB
env: {GREETING: "hello, world"}
volumes: ["FOLDER/in:/in:ro", "FOLDER/out:/out"]
shm_size: 32MiB
ulimits: {nofile: 4096, core: 0}
health_check: {command: [test, -e, /out/well], interval: 0.2s, timeout: 10s, grace: 30s}
command: |
  touch /out/well
  echo "$GREETING from task $MESOS_GPU_TASK_INDEX"
  cat /in/data
  (: >/in/more) 2>/dev/null && echo "in is writable"
  df -k /dev/shm | awk 'END {print "shared memory", $2}'
  echo "files $(ulimit -n), core $(ulimit -c)"
  until [ -e /out/seen ]; do sleep 0.1; done
`

const fullJobOutput = `hello, world from task 0
the data
shared memory 32768
files 4096, core 0
`

// runFullJob runs fullJobFile under a containerizer until it ends, and returns the job and its
// output.
func runFullJob(t *testing.T, c *cluster, containerizer, image string) (view api.JobView, out string) {
	t.Helper()
	folder := t.TempDir()
	for _, dir := range []string{"in", "out"} {
		if err := os.Mkdir(filepath.Join(folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "in", "data"), []byte("the data\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	name := "everything-" + containerizer
	text := strings.NewReplacer("NAME", name, "IMAGE", image, "CONTAINERIZER", containerizer, "FOLDER", folder).Replace(fullJobFile)
	c.mustRun("submit", writeJobFile(t, name, text))
	view = c.awaitJob(name, func(v *api.JobView) bool {
		return v.Terminal || v.Tasks[0].Healthy != nil && *v.Tasks[0].Healthy
	})
	if view.Terminal {
		return view, ""
	}
	if err := os.WriteFile(filepath.Join(folder, "out", "seen"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	view = c.awaitJob(name, func(v *api.JobView) bool { return v.Terminal })
	return view, c.mustRun("logs", view.Tasks[0].ID)
}

// TestOneJobFileUnderBothContainerizers checks that a job file has the same output under both
// containerizers.
func TestOneJobFileUnderBothContainerizers(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, "mesos-gpu-e2e-everything", nil, nil)
	image := testimage.LoadImage(t, docker, archive)
	c := startCluster(t, "--images", filepath.Dir(archive), "--allow-volumes", os.TempDir())
	for _, containerizer := range []string{"docker", "mesos"} {
		view, out := runFullJob(t, c, containerizer, image)
		if view.State != job.Finished || out != fullJobOutput {
			t.Errorf("%s: ended %s with output\n%swant\n%s%s", containerizer, view.State, out, fullJobOutput, view.Tasks[0].Message)
		}
	}
}
