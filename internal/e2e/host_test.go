package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/volumemgr"
)

// TestDiscover runs discover, which needs no cluster.
func TestDiscover(t *testing.T) {
	var host struct {
		Driver  string
		Devices []struct{ UUID, Model string }
	}
	decodeJSON(t, runCommand(t, nil, "discover", "--simulate", "2xV100,1xK80", "-o", "json").out, &host)
	if len(host.Devices) != 3 || host.Devices[2].Model != "Tesla K80" || host.Driver == "" {
		t.Errorf("got %+v", host)
	}
	if !hasDriver() {
		if r := runCommand(t, nil, "discover"); r.code == 0 || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "libnvidia-ml.so.1") {
			t.Errorf("without a driver: status %d, %q", r.code, r.err)
		}
	}
	if r := runCommand(t, nil, "discover", "--simulate", "2xFOO"); r.code == 0 || !strings.Contains(r.err, "2xFOO") {
		t.Errorf("an unknown type: status %d, %q", r.code, r.err)
	}
}

// TestLocalAgents runs several agents in one cluster: jobs are spread and drained, and the
// topology of an agent's GPUs is that of discover, over REST too.
func TestLocalAgents(t *testing.T) {
	c := startCluster(t, "--agents", "1x4xK80,2x1xV100")
	var agents []struct {
		ID, Hostname string
		GPUs         int
		Types        []string
	}
	decodeJSON(t, c.mustRun("agents", "-o", "json"), &agents)
	first, found := "", map[string]string{}
	for _, a := range agents {
		found[a.Hostname] = fmt.Sprint(a.GPUs, a.Types)
		if a.GPUs == 4 {
			first = a.ID
		}
	}
	if diff := cmp.Diff(map[string]string{"127.0.0.1": "4 [K80]", "127.0.0.2": "1 [V100]", "127.0.0.3": "1 [V100]"}, found); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	var detail, discovered struct{ Devices []gpu.Device }
	decodeJSON(t, runCommand(t, nil, "discover", "--simulate", "4xK80", "-o", "json").out, &discovered)
	if status, answer := c.sendRequest("GET", c.api+"/v1/agents/"+first, ""); status != 200 {
		t.Fatalf("status %d: %s", status, answer)
	} else {
		decodeJSON(t, string(answer), &detail)
	}
	if diff := cmp.Diff(discovered.Devices, detail.Devices); diff != "" {
		t.Errorf("the devices of discover and of REST differ (-discover +REST):\n%s", diff)
	}
	c.mustRun("run", "--name", "gang", "--gang", "--tasks", "2", "--gpus", "1", "--gpu-type", "V100", "--", "true")
	var on []string
	for _, task := range c.awaitJob("gang", func(v *api.JobView) bool { return v.Terminal }).Tasks {
		on = append(on, task.Hostname)
	}
	if diff := cmp.Diff([]string{"127.0.0.2", "127.0.0.3"}, slices.Sorted(slices.Values(on))); diff != "" {
		t.Errorf("the agents of a gang of two (-want +got):\n%s", diff)
	}
	c.mustRun("drain", "127.0.0.2", "--reason", "test")
	c.mustRun("run", "--detach", "--name", "more", "--gpus", "1", "--gpu-type", "V100", "--", "sleep", "1000")
	if on := c.awaitJob("more", isRunningAttempt(1)).Tasks[0].Hostname; on != "127.0.0.3" {
		t.Errorf("with 127.0.0.2 drained, the task runs on %s", on)
	}
	for _, args := range [][]string{{"--agents", "4xV100"}, {"--agents", "1x1xV100", "--gpus", "1xV100"}} {
		if r := runCommand(t, nil, append([]string{"local", "--free-ports"}, args...)...); r.code == 0 ||
			!strings.Contains(r.err, "--agents") && !strings.Contains(r.err, "HOSTSxGPUSxTYPE") {
			t.Errorf("local %v: status %d, %q", args, r.code, r.err)
		}
	}
}

// TestDiscoverLoadsNVML runs discover and agent flags with a fake NVML that the program loads
// like NVIDIA's.
func TestDiscoverLoadsNVML(t *testing.T) {
	lib := t.TempDir()
	nvmltest.BuildLibrary(t, lib)
	host, err := simulated.NewHost("1xA100,1xT4", "nvml")
	if err != nil {
		t.Fatal(err)
	}
	nvmltest.ReportHost(t, host)
	out := runCommand(t, []string{"LD_LIBRARY_PATH=" + lib}, "discover").out
	for _, want := range []string{"driver " + host.Driver, "NVIDIA A100", "Tesla T4", host.Devices[0].UUID} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
	for _, c := range []struct{ advertise, stock, want string }{
		{"flags", "", "--resources=gpus:2;gpu_ids:{GPU-"},
		{"flags", "1", "--resources=gpus:1;gpu_ids:{" + host.Devices[0].UUID + "};gpus:1\n"},
		{"provider", "", "--resources=gpus:0\n"},
		{"provider", "1", "--resources=gpus:1\n"},
	} {
		flags := runCommand(t, []string{"LD_LIBRARY_PATH=" + lib}, "agent", "flags", "--advertise", c.advertise, "--stock", c.stock).out
		for _, want := range []string{c.want, "gpu_type:A100", "gpu_inventory:"} {
			if !strings.Contains(flags, want) {
				t.Errorf("agent flags --advertise %s --stock %q lack %q:\n%s", c.advertise, c.stock, want, flags)
			}
		}
	}
}

func TestVolumes(t *testing.T) {
	root, dir := filepath.Join(t.TempDir(), "root"), filepath.Join(t.TempDir(), "volumes")
	if r := runCommand(t, nil, "volume", "create", "--driver-root", t.TempDir(), "--dir", dir); r.code == 0 || !strings.Contains(r.err, "no NVIDIA driver") {
		t.Errorf("without a driver: status %d, %q", r.code, r.err)
	}
	if err := volumemgr.WriteSimulatedDriver(root, "535.104.05"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := runCommand(t, nil, "volume", "create", "--driver-root", root, "--dir", dir); r.code != 0 || !strings.HasPrefix(r.out, "nvidia_535.104.05\t") {
			t.Errorf("status %d\n%s%s", r.code, r.out, r.err)
		}
	}
	var volumes []struct {
		Name, Path string
		Files      int
	}
	decodeJSON(t, runCommand(t, nil, "volume", "list", "--dir", dir, "-o", "json").out, &volumes)
	if len(volumes) != 1 || volumes[0].Name != "nvidia_535.104.05" || volumes[0].Files == 0 || !pathExists(filepath.Join(volumes[0].Path, "lib64")) {
		t.Errorf("got %+v", volumes)
	}
}
