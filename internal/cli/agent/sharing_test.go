package agent

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// agentFlagsOf returns the output of `agent flags` on a host with two simulated GPUs.
func agentFlagsOf(t *testing.T, flags string) (printed string, err error) {
	t.Helper()
	var out bytes.Buffer
	c := (&agentCommands{&cli.App{ProcessIO: cli.ProcessIO{Stdout: &out, Stderr: &out}}}).agentCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append([]string{"flags", "--simulate", "2xV100", "--share-library", "/none"}, strings.Fields(flags)...))
	err = c.ExecuteContext(t.Context())
	return out.String(), err
}

// The agent's flags advertise a shared device in shares and name the enforcement method; with
// a resource provider they have only the attribute.
func TestAgentFlagsOfSharedDevices(t *testing.T) {
	for _, c := range []struct {
		name, args    string
		want, without []string
	}{
		{"in flags", "--advertise flags --share 1 --gpu-memory-scaling 1.5 --gpu-cores-scaling 2",
			[]string{"gpus:1;", ":24240", "gpu_cores.GPU-", ":200", "gpu_share_limit:none"}, nil},
		{"by a provider", "--share all", []string{"--resources=gpus:0\n", "gpu_share_limit:none"}, []string{"gpu_mem."}},
		{"none", "", nil, []string{"gpu_mem.", "gpu_share_limit"}},
		{"a limit said", "--share-limit none", []string{"gpu_share_limit:none"}, []string{"gpu_mem."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := agentFlagsOf(t, c.args)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("lacks %q:\n%s", want, out)
				}
			}
			for _, no := range c.without {
				if strings.Contains(out, no) {
					t.Errorf("has %q:\n%s", no, out)
				}
			}
		})
	}
	for args, want := range map[string]string{
		"--share 7":                          "names none of this host's 2 GPUs",
		"--share 0 --stock 0":                "names none of this host's 1 GPUs",
		"--share 0 --gpu-memory-scaling 0.5": "scaling of memory is 0.5: give 1 to 10",
		"--share 0 --share-limit mps":        "the GPU is simulated",
		"--share 0 --share-limit preload":    "no library at",
		"--share 0 --share-limit hami":       `unknown share limit "hami"`,
	} {
		if _, err := agentFlagsOf(t, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

// An agent whose devices may be shared later advertises the enforcement method in advance.
func TestProviderAgentReportsShareLimit(t *testing.T) {
	f := ShareFlags{List: share.NoDevices, Limit: share.AutoMethod, library: "/none", Scaling: share.ShareScaling{Memory: 1, Cores: 1}}
	for live, want := range map[bool]gpu.EnforcementMethod{true: gpu.EnforcedByMIG, false: ""} {
		m := advertise.MachineGPUs{Host: gpu.Host{Devices: []gpu.Device{{UUID: "MIG-1", MIG: &gpu.MIG{Parent: "GPU-1"}}}}}
		if err := f.addSharing(t.Context(), &m, false, live, logrus.New()); err != nil || m.ShareLimit != want {
			t.Errorf("live %t: the limit is %q, want %q: %v", live, m.ShareLimit, want, err)
		}
	}
}

func TestFormatShares(t *testing.T) {
	shared := socket.DeviceSharing{
		Shared:     true,
		MemMiB:     32510,
		Cores:      100,
		Limit:      gpu.EnforcedByMPS,
		Containers: []socket.ContainerShare{{MemMiB: 4096, Cores: 30}, {MemMiB: 8192}},
	}
	pending := shared
	pending.Pending = true
	for want, d := range map[string]*socket.DeviceSharing{
		"-": nil, "12288/32510 MiB, 30/100 % (mps)": &shared, "12288/32510 MiB, 30/100 % (mps), changes once idle": &pending,
		"whole, changes once idle": {Pending: true},
	} {
		if got := formatShares(socket.DeviceInfo{Share: d}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
