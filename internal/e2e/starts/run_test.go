package starts

import (
	"bufio"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// apiAddress is the address in the first line of "mesos-gpu local".
var apiAddress = regexp.MustCompile(`API (http://[0-9.:]+)`)

// startLocal runs "mesos-gpu local" until the benchmark ends and returns the address of its API.
func startLocal(b *testing.B, program string) string {
	b.Helper()
	local := exec.Command(program, "local", "--free-ports", "--process-user=", "--work-dir", b.TempDir())
	out, err := local.StdoutPipe()
	if err == nil {
		err = local.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = local.Process.Signal(syscall.SIGTERM)
		_ = local.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if m := apiAddress.FindStringSubmatch(lines.Text()); m != nil {
			return m[1]
		}
	}
	b.Fatal("mesos-gpu local ended")
	return ""
}

// newCommandLauncher runs a command to its end.
func newCommandLauncher(name, program string, args ...string) *launcher {
	return &launcher{startTimes{name: name}, func(b *testing.B, _ string) (time.Duration, func()) {
		began := time.Now()
		out, err := exec.Command(program, args...).CombinedOutput()
		took := time.Since(began)
		if err != nil {
			b.Errorf("%s: %v\n%s", name, err, out)
		}
		return took, func() {}
	}}
}

// BenchmarkRunInARow runs a command that ends at once by "mesos-gpu run" and by "docker run
// --rm", one after the other, from the start of the client to its exit. It fails if the first
// takes over 1.2 times as long at the median.
func BenchmarkRunInARow(b *testing.B) {
	docker := testneeds.RequireDockerEngine(b)
	cli := testneeds.RequireProgram(b, "docker", "docker.io")
	image := testimage.LoadImage(b, docker, testimage.BusyboxArchive(b, "mesos-gpu-starts-run", nil, nil))
	program := buildProgram(b)
	run := newCommandLauncher("mesos-gpu run -- true", program, "run", "--api", startLocal(b, program), "--", "true")
	plain := newCommandLauncher("docker run --rm IMAGE true", cli, "run", "--rm", image, "true")
	host := newCommandLauncher("docker run --rm --network host", cli, "run", "--rm", "--network", "host", image, "true")
	for range b.N {
		for _, l := range []*launcher{run, plain, host} {
			launchSerially(b, 8, l)
		}
	}
	reportComparison(b, "a command in a row", &run.startTimes, &plain.startTimes, &host.startTimes)
	share := ratioAtPercentile(&run.startTimes, &plain.startTimes, 50)
	b.ReportMetric(share, "of-docker-p50")
	if share > 1.2 {
		b.Errorf("run takes %.2f of what docker run does, want at most 1.2", share)
	}
}
