package socket_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testing/kerneltest"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/unixsocket"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/isolator/socket"
)

// BenchmarkLaunch measures the delay of a container's launch: prepare and isolate over
// the socket, from none to two of four GPUs. Its process is already in its cgroup, as
// with Mesos.
func BenchmarkLaunch(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		k := kerneltest.New("GPU-0", "GPU-1", "GPU-2", "GPU-3")
		benchmarkLaunch(b, k, "mesos", "", []string{"GPU-0", "GPU-1"})
	})
	for _, version := range []string{"v1", "v2"} {
		b.Run(version, func(b *testing.B) {
			testneeds.RequireRoot(b)
			h, err := simulated.NewHost("4xV100", "bench")
			if err != nil {
				b.Fatal(err)
			}
			kernel, err := isolator.New(isolator.HostConfig{Host: h, CgroupVersion: version})
			if err != nil {
				b.Skipf("needs cgroups %s: %v", version, err)
			}
			mountpoint, err := cgroup.FindV1MountPoint("/proc/self/mountinfo")
			if version == "v2" {
				mountpoint, err = cgroup.FindV2MountPoint("/proc/self/mountinfo")
			}
			if err != nil {
				b.Fatal(err)
			}
			root := fmt.Sprintf("mesos-gpu-socket-bench-%d", os.Getpid())
			mkdir(b, mountpoint, root)
			benchmarkLaunch(b, kernel, root, mountpoint, []string{h.Devices[0].UUID, h.Devices[1].UUID})
		})
	}
}

// mkdir creates a cgroup that is removed after the benchmark.
func mkdir(b *testing.B, mountpoint, name string) {
	b.Helper()
	dir := filepath.Join(mountpoint, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := syscall.Rmdir(dir); err != nil {
			b.Error(err)
		}
	})
}

func benchmarkLaunch(b *testing.B, kernel containers.Kernel, root, mountpoint string, stock []string) {
	c, err := containers.Open(containers.ManagerConfig{
		Kernel: kernel, Dir: b.TempDir(), CgroupsRoot: root, Stock: stock, Log: quiet(),
		DriverVolume: func(context.Context) (string, error) { return "/volume", nil },
		NeedsDriver:  func(_, _ map[string]string) (bool, error) { return false, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	d := newTestDaemon(b, func(cfg *socket.ServerConfig) { cfg.Containers = c })
	d.start(b)
	var times []time.Duration
	for b.Loop() {
		b.StopTimer()
		id := fmt.Sprintf("c%d", len(times))
		pid, end := process(b, mountpoint, filepath.Join(root, id))
		b.StartTimer()
		start := time.Now()
		if _, err := d.PrepareContainer(b.Context(), containers.LaunchRequest{
			Container: id,
			Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 2}},
		}); err != nil {
			b.Fatal(err)
		}
		if err := d.IsolateContainer(b.Context(), id, pid); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
		b.StopTimer()
		end()
		if err := d.CleanUpContainer(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		if mountpoint != "" {
			if err := syscall.Rmdir(filepath.Join(mountpoint, root, id)); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
}

// process starts a process in a new cgroup, or in none without a mount point.
func process(b *testing.B, mountpoint, group string) (pid int, end func()) {
	b.Helper()
	cmd := exec.Command("sleep", "600")
	if mountpoint != "" {
		if err := os.Mkdir(filepath.Join(mountpoint, group), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if mountpoint != "" {
		file := filepath.Join(mountpoint, group, "cgroup.procs")
		if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return cmd.Process.Pid, func() {
		if err := cmd.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
}

// serveAgent runs a daemon in a process of its own, with a fake kernel.
func serveAgent(args []string) {
	c, err := containers.Open(containers.ManagerConfig{
		Kernel: kerneltest.New("GPU-0", "GPU-1"), Dir: args[1], Stock: []string{"GPU-1"}, Log: quiet(),
		DriverVolume: func(context.Context) (string, error) { return "/volume", nil },
		NeedsDriver:  func(_, _ map[string]string) (bool, error) { return false, nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := socket.NewServer(socket.ServerConfig{Containers: c, Devices: newFakeDevices(), Metrics: http.NotFoundHandler(), UID: os.Getuid(), Log: quiet()})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := unixsocket.Listen(args[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	fmt.Println("ready")
	if err := server.Serve(ctx, l); err != nil {
		fmt.Println(err)
	}
}

// BenchmarkMemory reports how a daemon's resident memory grows with calls of
// all kinds; a million of them: go test -bench Memory -benchtime 1000000x.
func BenchmarkMemory(b *testing.B) {
	dir := b.TempDir()
	path := dir + "/agent.sock"
	cmd := exec.Command("/proc/self/exe", "serve-agent", path, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		b.Fatal(line, err)
	}
	warm := socket.NewDaemonClient(path)
	defer warm.Close()
	if _, err := warm.DaemonVersion(b.Context()); err != nil {
		b.Fatal(err)
	}
	first := resident(b, cmd.Process.Pid)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			c := socket.NewDaemonClient(path)
			defer c.Close()
			for left.Add(-1) >= 0 {
				if err := oneCall(b.Context(), c, worker, int(left.Load())); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	last := resident(b, cmd.Process.Pid)
	b.ReportMetric(float64(first)/1024, "MiB-before")
	b.ReportMetric(float64(last)/1024, "MiB-after")
}

// oneCall makes the n-th call; each worker has its own containers.
func oneCall(ctx context.Context, c *socket.DaemonClient, worker, n int) error {
	id := fmt.Sprintf("w%d-%d", worker, n/64)
	var err error
	switch n % 8 {
	case 0, 1:
		_, err = c.PrepareContainer(ctx, containers.LaunchRequest{Container: id, Task: id})
	case 2:
		_, err = c.UpdateContainer(ctx, id, nil)
	case 3:
		_, err = c.ListDevices(ctx)
	case 4:
		_, err = c.ListContainers(ctx)
	case 5:
		_, err = c.DeviceHistory(ctx, "GPU-0")
	case 6:
		err = c.RecoverContainers(ctx, []string{id})
	default:
		err = c.CleanUpContainer(ctx, id)
	}
	return err
}

// resident returns a process's resident memory in KiB.
func resident(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return kib
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
