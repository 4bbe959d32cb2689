package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

// everything is a job that uses what a container can have under either
// containerizer. It waits until its health check has been seen to hold.
const everything = `name: NAME
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

const everythingSays = `hello, world from task 0
the data
shared memory 32768
files 4096, core 0
`

// runEverything returns what the job writes under that containerizer, once it
// has ended well.
func runEverything(t *testing.T, c *cluster, containerizer, image string) (view api.JobView, out string) {
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
	text := strings.NewReplacer("NAME", name, "IMAGE", image, "CONTAINERIZER", containerizer, "FOLDER", folder).Replace(everything)
	c.must("submit", write(t, name, text))
	view = c.await(name, func(v *api.JobView) bool {
		return v.Terminal || v.Tasks[0].Healthy != nil && *v.Tasks[0].Healthy
	})
	if view.Terminal {
		return view, ""
	}
	if err := os.WriteFile(filepath.Join(folder, "out", "seen"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	view = c.await(name, func(v *api.JobView) bool { return v.Terminal })
	return view, c.must("logs", view.Tasks[0].ID)
}

// One job file, and the same output, under both containerizers.
func TestOneJobFileUnderBothContainerizers(t *testing.T) {
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, "mesos-gpu-e2e-everything", nil, nil)
	image := testimage.LoadImage(t, docker, archive)
	c := start(t, "--images", filepath.Dir(archive), "--allow-volumes", os.TempDir())
	for _, containerizer := range []string{"docker", "mesos"} {
		view, out := runEverything(t, c, containerizer, image)
		if view.State != job.Finished || out != everythingSays {
			t.Errorf("%s: ended %s, saying\n%swant\n%s%s", containerizer, view.State, out, everythingSays, view.Tasks[0].Message)
		}
	}
}
