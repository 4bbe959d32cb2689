package starts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/image"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// BenchmarkUnifiedStart starts nested containers of one image through the executor and, from
// the same root file system, by runc run. The executor's time is measured from the launch by
// the agent to TASK_RUNNING at the master.
func BenchmarkUnifiedStart(b *testing.B) {
	runc := testneeds.RequireProgram(b, "runc", "runc")
	const name = "mesos-gpu-starts-unified:latest"
	images := filepath.Dir(testimage.BusyboxArchive(b, name, nil, nil))
	agent := startAgent(b, buildProgram(b), images)
	rootfs, err := image.NewStore(images, b.TempDir()).Get(b.Context(), name)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		start func(*testing.B, ...*launcher)
	}{
		{"serial", func(b *testing.B, launchers ...*launcher) { launchSerially(b, 100, launchers...) }},
		{"32-at-once", func(b *testing.B, launchers ...*launcher) {
			for range 4 {
				launchConcurrently(b, 32, launchers...)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			startup := &startTimes{name: "  of it until TASK_STARTING"}
			mine, plain := newExecutorLauncher(agent, startup, unifiedContainer(name)), newRuncLauncher(b, runc, rootfs.Rootfs)
			for range b.N {
				c.start(b, mine, plain)
			}
			reportComparison(b, "an image without an engine, "+c.name, &mine.startTimes, &plain.startTimes, startup)
			b.ReportMetric(ratioAtPercentile(&mine.startTimes, &plain.startTimes, 50), "of-runc-p50")
		})
	}
}

func unifiedContainer(image string) *mesos.ContainerInfo {
	return &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), Mesos: &mesos.ContainerInfo_MesosInfo{
		Image: &mesos.Image{Type: mesos.Image_DOCKER.Enum(), Docker: &mesos.Image_Docker{Name: image}},
	}}
}

// newRuncLauncher starts containers by runc run from a bundle that already exists.
func newRuncLauncher(b *testing.B, runc, rootfs string) *launcher {
	b.Helper()
	bundle, state := b.TempDir(), b.TempDir()
	if out, err := exec.Command(runc, "spec", "--bundle", bundle).CombinedOutput(); err != nil {
		b.Fatalf("runc spec: %v\n%s", err, out)
	}
	path := filepath.Join(bundle, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		b.Fatal(err)
	}
	process := spec["process"].(map[string]any)
	process["terminal"], process["args"] = false, sleepCommand
	spec["root"] = map[string]any{"path": rootfs, "readonly": true}
	if text, err = json.Marshal(spec); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return &launcher{startTimes{name: "runc run -d"}, func(b *testing.B, id string) (time.Duration, func()) {
		c := exec.Command(runc, "--root", state, "run", "--detach", "--bundle", bundle, id)
		began := time.Now()
		err := c.Run()
		took := time.Since(began)
		if err != nil {
			b.Errorf("runc run: %v", err)
		}
		return took, func() {
			if out, err := exec.Command(runc, "--root", state, "delete", "--force", id).CombinedOutput(); err != nil {
				b.Errorf("runc delete: %v\n%s", err, out)
			}
		}
	}}
}
