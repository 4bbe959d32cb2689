//go:build mesos

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/layouttest"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/job"
)

// startMIGDaemon runs a daemon for an agent of Apache Mesos. The daemon may partition the only
// GPU, which a fake NVML reports.
func startMIGDaemon(t *testing.T) (*mesos, *nvmltest.FakeMachine, gpu.Device) {
	t.Helper()
	whole := gpu.Device{
		UUID: "GPU-11111111-0000-0000-0000-000000000002", Model: "NVIDIA A100-SXM4-40GB", Arch: "8.0", Brand: "nvidia", MemMiB: 40960, Minor: 1, PCI: "0000:0f:00.0",
	}
	h := gpu.Host{Driver: "550.54.15", CUDA: "12.4"}
	flags := advertise.MachineGPUs{Host: h, ShareLimit: gpu.EnforcedByMIG}
	flags.MarkRepartitioned(whole, layouttest.A100())
	resources, attributes := flags.AgentFlags(true)
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime", "--resources="+resources, "--attributes="+attributes)

	library := nvmltest.BuildLibrary(t, t.TempDir())
	h.Devices = []gpu.Device{whole}
	machine := nvmltest.ReportHost(t, h)
	machine.EnableMIG(whole.UUID, layouttest.A100())
	log, _ := logtest.NewNullLogger()
	d, err := daemon.New(daemon.DaemonConfig{
		AgentURL: "http://" + m.agent + "/slave(1)", StateDir: t.TempDir(), Log: log, Provider: true, Unmanaged: true, Socket: m.socketPath(),
		MIG: "all", MIGLayout: "2x3g.20gb", SharedDevices: "all", ShareLimit: string(gpu.EnforcedByMIG), Limiters: []share.Limiter{share.NewMIGLimiter()},
		OpenHardware: func() (daemon.Hardware, error) {
			return daemon.OpenNVML(nvml.LibraryConfig{Library: library, SysRoot: machine.SysRoot, ProcRoot: machine.ProcRoot})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return m, machine, whole
}

// TestMesosIdleGPUIsRepartitioned requests another MIG layout while a task uses a MIG device.
// The task keeps its device. A task that needs a larger device waits, and gets one after the
// GPU was idle and has been repartitioned.
func TestMesosIdleGPUIsRepartitioned(t *testing.T) {
	m, machine, whole := startMIGDaemon(t)
	c := m.startScheduler(t)
	submit := func(name, memory string) {
		t.Helper()
		c.mustRun("submit", writeJobFile(t, name, fmt.Sprintf("name: %s\ncpus: 0.1\nmem: 256MiB\nshare: {memory: %s}\ncommand: sleep 1000\n", name, memory)))
	}
	runs := func(name string) gpu.DeviceShare {
		t.Helper()
		view := c.awaitJob(name, func(v *api.JobView) bool { return v.Terminal || len(v.Tasks) == 1 && v.Tasks[0].State == job.Running })
		if view.Terminal || len(view.Tasks[0].Shares) != 1 {
			t.Fatalf("%s: %+v", name, view.Tasks)
		}
		return view.Tasks[0].Shares[0]
	}
	submit("small", "3GiB")
	if part := runs("small"); part.MemMiB != 19456 || part.LimitedBy != gpu.EnforcedByMIG || !strings.HasPrefix(part.UUID, "MIG-") {
		t.Errorf("a small task holds %s, want a whole slice of 19456 MiB", part)
	}
	submit("large", "30GiB")
	awaitText(t, "the reason why large waits", func() string { return c.mustRun("describe", "large") }, "lack 30720 MiB")
	client := socket.NewDaemonClient(m.socketPath())
	t.Cleanup(client.Close)
	for range 2 { // a repeated request changes nothing
		if waits, err := client.SetMIGLayout(t.Context(), whole.UUID, []string{"7g.40gb"}); err != nil || !waits {
			t.Fatalf("waits %v, %v", waits, err)
		}
	}
	if view := c.awaitJob("small", func(*api.JobView) bool { return true }); view.Terminal || view.Tasks[0].State != job.Running {
		t.Errorf("small is %s", view.State)
	}
	if got := machine.ListInstances(whole.UUID); !slices.Equal(got, []string{"9@0", "9@4"}) {
		t.Errorf("with a task the GPU is cut into %v", got)
	}
	c.mustRun("kill", "small")
	if part := runs("large"); part.MemMiB != 38912 {
		t.Errorf("a large task holds %s, want a slice of 38912 MiB", part)
	}
	if got := machine.ListInstances(whole.UUID); !slices.Equal(got, []string{"0@0"}) {
		t.Errorf("the GPU is cut into %v", got)
	}
}
