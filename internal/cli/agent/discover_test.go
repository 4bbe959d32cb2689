package agent

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator/simulated"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata")

func simulateHost(t *testing.T, spec string) gpu.Host {
	t.Helper()
	h, err := simulated.NewHost(spec, "golden")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// partitionedHost has two GPUs with different PCIe links and one that is partitioned by MIG.
// The NUMA node of the second is unknown.
func partitionedHost() gpu.Host {
	slice := func(uuid, profile string, gi, caps int) gpu.Device {
		return gpu.Device{
			UUID: uuid, Model: "NVIDIA A100 80GB PCIe MIG " + profile, MemMiB: 9728, Minor: 2, PCI: "0000:af:00.0", NUMA: 1, Persistence: true,
			MIG: &gpu.MIG{Parent: "GPU-c", Profile: profile, GPUInstance: gi, GPUInstanceCap: caps, ComputeInstanceCap: caps + 1},
		}
	}
	return gpu.Host{Driver: "550.54.15", CUDA: "12.4", Devices: []gpu.Device{
		slice("MIG-00000000-0000-0000-0000-00000000000b", "2g.20gb", 3, 30),
		{
			UUID: "GPU-00000000-0000-0000-0000-00000000000a", Model: "NVIDIA A100 80GB PCIe", MemMiB: 81920, Minor: 0, PCI: "0000:3b:00.0",
			Persistence: true, Paths: map[string]gpu.PCIePath{"GPU-00000000-0000-0000-0000-00000000000b": gpu.OneBridge},
		},
		{UUID: "GPU-00000000-0000-0000-0000-00000000000b", Model: "NVIDIA A100 80GB PCIe", MemMiB: 81920, Minor: 1, PCI: "0000:5e:00.0", NUMA: -1},
		slice("MIG-00000000-0000-0000-0000-00000000000a", "1g.10gb", 7, 66),
	}}
}

// nodesOf is a machine without nvidia-uvm's nodes and with two NVSwitches.
func nodesOf(pattern string) []string {
	switch {
	case strings.Contains(pattern, "*"):
		return []string{"/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl"}
	case strings.Contains(pattern, "uvm"):
		return nil
	default:
		return []string{pattern}
	}
}

func TestDiscoverOutput(t *testing.T) {
	for name, h := range map[string]gpu.Host{
		"one":         simulateHost(t, "T4"),
		"mixed":       simulateHost(t, "2xV100,1xK80"),
		"dgx1":        simulateHost(t, "8xV100"),
		"wide":        simulateHost(t, "16xH100"),
		"partitioned": partitionedHost(),
		"none":        {Driver: "550.54.15", CUDA: "12.4"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := &agentCommands{&cli.App{ProcessIO: cli.ProcessIO{Stdout: &out}}}
			if err := a.printHost(h, nodesOf); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "discover", name+".txt")
			if *rewrite {
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Errorf("%s (-want +got); -rewrite replaces it:\n%s", file, diff)
			}
			for line := range strings.Lines(out.String()) {
				if len(line) > 140 {
					t.Errorf("a line of %d characters: %s", len(line), line)
				}
			}
		})
	}
}

// Each device of the wide host is named in its column, in every row.
func TestMatrixIsSymmetric(t *testing.T) {
	for _, h := range []gpu.Host{simulateHost(t, "16xH100"), simulateHost(t, "8xV100,2xT4"), partitionedHost()} {
		var rows [][]string
		for _, line := range strings.Split(topologyMatrix(h), "\n")[1:] {
			if strings.HasPrefix(line, "GPU") {
				rows = append(rows, strings.Fields(line)[1:])
			}
		}
		for i := range rows {
			for j := range rows {
				if len(rows[i]) != len(rows) || rows[i][j] != rows[j][i] || (i == j) != (rows[i][j] == "X") {
					t.Fatalf("row %d of %d: %v; column %d: %v", i, len(rows), rows[i], j, rows[j])
				}
			}
		}
	}
}
