package executor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/atomicfile"
)

// fakeUsageSource is a daemon that returns values from the test.
type fakeUsageSource struct {
	asked chan string
	use   gpu.TaskUsage
	err   error
}

func (g *fakeUsageSource) readUsage(ctx context.Context, container string, devices []string, parts bool) (gpu.TaskUsage, error) {
	select {
	case g.asked <- container + " " + strings.Join(devices, ","):
	case <-ctx.Done():
		return gpu.TaskUsage{}, context.Cause(ctx)
	}
	if parts {
		return gpu.TaskUsage{}, errors.New("the task has no parts")
	}
	return g.use, g.err
}

func useIn(t *testing.T, sandbox string) (gpu.TaskUsage, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sandbox, gpu.UsageFile))
	if err != nil {
		return gpu.TaskUsage{}, err
	}
	return gpu.ParseUsage(text, nil)
}

// TestReportUsage: the file contains the latest usage of the devices since the task's
// start. If the daemon disappears, the file is not changed and its time shows its age.
func TestReportUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		duty := 0.5
		told := gpu.TaskUsage{Time: time.Now().UTC(), Devices: []gpu.DeviceUsage{{UUID: "GPU-a", Duty: &duty}}}
		g := &fakeUsageSource{asked: make(chan string), use: told}
		r := newRig(t)
		r.cfg.ReadUsage = g.readUsage
		r.cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{Confined: true, Minors: []int{0}}, nil }
		r.run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{GPUs: 1, DeviceIDs: []string{"GPU-a"}}))
		r.running()
		start := time.Now()
		look := func(after time.Duration, want gpu.TaskUsage) {
			t.Helper()
			if got := <-g.asked; got != "container GPU-a" || time.Since(start) != after {
				t.Errorf("requested %q after %s, want %s", got, time.Since(start), after)
			}
			synctest.Wait()
			got, err := useIn(t, r.cfg.Sandbox)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("after %s: %v (-want +got):\n%s", after, err, diff)
			}
		}
		look(0, told)
		g.err = errors.New("no daemon")
		look(5*time.Second, told)
		g.err, g.use.Time = nil, told.Time.Add(10*time.Second)
		later := func(seconds int, totals gpu.UsageTotals) gpu.TaskUsage {
			return gpu.TaskUsage{Time: told.Time.Add(time.Duration(seconds) * time.Second), Devices: []gpu.DeviceUsage{{UUID: "GPU-a", Duty: &duty, Totals: &totals}}}
		}
		look(10*time.Second, later(10, gpu.UsageTotals{Seconds: 10, BusySeconds: 5}))

		time.Sleep(3 * time.Second)
		g.use = gpu.TaskUsage{Time: told.Time.Add(13 * time.Second), Devices: []gpu.DeviceUsage{{UUID: "GPU-a", Duty: &duty}}}
		r.task.exit <- task.ExitStatus{}
		look(13*time.Second, later(13, gpu.UsageTotals{Seconds: 13, BusySeconds: 6.5})) // the last one, before the status
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
		if left, err := filepath.Glob(filepath.Join(r.cfg.Sandbox, atomicfile.TempPrefix+"*")); len(left) > 0 || err != nil {
			t.Errorf("left %v, %v", left, err)
		}
	})
}

// TestUsageReportIgnoresPlantedFiles: files that the task puts at the report's
// names do not redirect or block the executor.
func TestUsageReportIgnoresPlantedFiles(t *testing.T) {
	for _, name := range []string{gpu.UsageFile, atomicfile.TempPrefix + gpu.UsageFile} {
		for what, test := range map[string]struct {
			put  func(path, outside string) error
			stay bool // the task keeps the file from being written
		}{
			"link":      {func(path, outside string) error { return os.Symlink(outside, path) }, false},
			"hard link": {func(path, outside string) error { return os.Link(outside, path) }, false},
			"dangling":  {func(path, outside string) error { return os.Symlink(outside+".new", path) }, false},
			"folder": {func(path, outside string) error {
				return errors.Join(os.Mkdir(path, 0o755), os.WriteFile(filepath.Join(path, "x"), nil, 0o644))
			}, true},
			"large": {func(path, outside string) error {
				return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 1<<40))
			}, false},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				sandbox, elsewhere := t.TempDir(), t.TempDir()
				outside := filepath.Join(elsewhere, "outside")
				if err := errors.Join(os.WriteFile(outside, []byte("mine"), 0o600), test.put(filepath.Join(sandbox, name), outside)); err != nil {
					t.Fatal(err)
				}
				err := replaceUsageFile(sandbox, []byte("{}"))
				if (err != nil) != test.stay {
					t.Errorf("got %v, want an error: %t", err, test.stay)
				}
				text, err := os.ReadFile(filepath.Join(sandbox, gpu.UsageFile))
				if !test.stay && (err != nil || string(text) != "{}") {
					t.Errorf("the file holds %q, %v", text, err)
				}
				if text, err := os.ReadFile(outside); err != nil || string(text) != "mine" {
					t.Errorf("outside is %q, %v", text, err)
				}
				if list, err := os.ReadDir(elsewhere); err != nil || len(list) != 1 {
					t.Errorf("elsewhere are %v, %v", list, err)
				}
			})
		}
	}
}

// TestNoUsageReportBeforeFirstSample: without samples no file is written.
func TestNoUsageReportBeforeFirstSample(t *testing.T) {
	c := ExecutorConfig{Sandbox: t.TempDir(), ReadUsage: func(context.Context, string, []string, bool) (gpu.TaskUsage, error) {
		return gpu.TaskUsage{Devices: []gpu.DeviceUsage{{UUID: "GPU-a"}}}, nil
	}}
	if err := new(usageReport).write(t.Context(), &c, &task.TaskSpec{GPUs: 1}, time.Second); err == nil ||
		!strings.Contains(err.Error(), "have not been measured") {
		t.Errorf("got %v", err)
	}
	if _, err := useIn(t, c.Sandbox); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
}
