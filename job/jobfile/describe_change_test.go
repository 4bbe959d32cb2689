package jobfile

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func TestDescribeChange(t *testing.T) {
	for _, c := range []struct {
		change func(*job.Spec)
		want   string
	}{
		{func(*job.Spec) {}, ""},
		{func(s *job.Spec) { s.Tasks = 3 }, ""}, // a change of its own
		{func(s *job.Spec) { s.Owner, s.After = "bob", []job.Dependency{} }, ""},
		{func(s *job.Spec) { s.Request.GPUs, s.Priority = 4, 5 }, "gpus 1 to 4, priority 3 to 5"},
		{func(s *job.Spec) { s.Request.GPUs, s.Priority = 0, 0 }, "gpus 1 to 0, priority 3 to 0"},
		{func(s *job.Spec) { s.Role = "research" }, "role lab to role research"},
		{func(s *job.Spec) { s.Timeout, s.RunTime, s.MaxWait = 0, 90*time.Minute, 36*time.Hour },
			"timeout 1h to none, run_time 1m to 1h30m, max_wait 1s to 36h"},
		{func(s *job.Spec) { s.MinRunTime, s.OnTimeout, s.MaxParallel = 10*time.Minute+time.Second, "", 0 },
			"max_parallel 4 to all, on_timeout requeue to fail, min_run_time 1m to 10m1s"},
		{func(s *job.Spec) { s.Request.Types.Include = []string{"A100", "H100"} }, "gpu_type V100 to A100,H100"},
		{func(s *job.Spec) { s.Request.Types = gpu.TypeSelector{Exclude: []string{"K80"}} }, "gpu_type"},
		{func(s *job.Spec) { s.Request.Types = gpu.TypeSelector{} }, "gpu_type V100 to any"},
		{func(s *job.Spec) { s.CPUs, s.MemMiB, s.DiskMiB = 0.5, 1024, 0 }, "cpus 2 to 0.5, mem 512MiB to 1024MiB, disk 64MiB to none"},
		{func(s *job.Spec) {
			s.Env, s.Command = map[string]string{"TOKEN": "hidden"}, []string{"hidden"}
			s.Secrets, s.SecretFiles = map[string]string{"KEY": "hidden"}, map[string]string{"/key": "hidden"}
			s.Notify[0].To, s.Labels = "https://example.org/hidden", map[string]string{"team": "hidden"}
		}, "command, env, secrets, secret_files, labels, notify"},
		{func(s *job.Spec) { s.Image, s.Service = "web:2", &job.Service{} }, "image none to web:2, service"},
		{func(s *job.Spec) { s.Image = "registry.example.org/team/web@sha256:" + strings.Repeat("0", 64) }, "image"},
	} {
		from, to := editableSpec(), editableSpec()
		c.change(&to)
		if got := DescribeChange(&from, &to); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}
