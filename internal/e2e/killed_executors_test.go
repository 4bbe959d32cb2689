package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// TestGPUsAreHeldOnceWhileExecutorsAreKilled kills the executor of each job's first attempt with
// SIGKILL, while other tasks start and run: 100 executors with make test-long. Each job must finish
// in its second attempt, and no process of a killed executor may hold a GPU when the next task
// gets it. Tasks hold a lock for each GPU, which the kernel releases with their last process.
func TestGPUsAreHeldOnceWhileExecutorsAreKilled(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	work, begun, ledger := filepath.Join(dir, "work"), filepath.Join(dir, "begun"), filepath.Join(dir, "ledger")
	if err := os.Mkdir(begun, 0o700); err != nil {
		t.Fatal(err)
	}
	c := startDaemon(t, buildReleased(t), "local", "--free-ports", "--process-user=", "--work-dir", work, "--gpus", "4xV100")
	jobs := 8
	if testneeds.IsLongRun() {
		jobs = 100
	}
	for n := range jobs {
		c.mustRun("run", "--detach", "--name", fmt.Sprint("job-", n), "--gpus", "1", "--cpus", "0.1", "--mem", "64MiB",
			"--retries", "3", "--", "sh", "-c", fmt.Sprintf(
				`exec 9>%[1]s/$NVIDIA_VISIBLE_DEVICES
flock --nonblock 9 || echo $MESOS_TASK_ID shares $NVIDIA_VISIBLE_DEVICES >> %[2]s
if test -e %[1]s/first-%[3]d; then echo job-%[3]d ends >> %[2]s; exit; fi
touch %[1]s/first-%[3]d %[4]s/$MESOS_TASK_ID
sleep 1000`, dir, ledger, n, begun))
	}
	killed := map[string]bool{}
	for late := time.Now().Add(time.Duration(jobs) * waitTimeout / 8); len(killed) < jobs; time.Sleep(50 * time.Millisecond) {
		for _, task := range listClaims(t, begun) {
			if pid := findExecutor(t, task); !killed[task] && pid != 0 {
				killed[task] = true
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		if time.Now().After(late) {
			t.Fatalf("only %d of %d jobs have begun:\n%s", len(killed), jobs, c.mustRun("ps"))
		}
	}
	for n := range jobs {
		v := c.awaitJob(fmt.Sprint("job-", n), func(v *api.JobView) bool { return v.Terminal })
		if v.State != job.Finished || v.Tasks[0].Attempt != 2 {
			t.Errorf("job-%d is %s in attempt %d: %s", n, v.State, v.Tasks[0].Attempt, v.Tasks[0].Message)
		}
	}
	text, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), " shares ") {
		t.Errorf("two tasks held a GPU at a time:\n%s", text)
	}
	if got := strings.Count(string(text), " ends\n"); got != jobs {
		t.Errorf("%d tasks ended, want %d:\n%s", got, jobs, text)
	}
	c.mustRun("run", "--gpus", "4", "--", "echo", "all four")
	c.stop()
	requireNothingLeft(t, work)
}
