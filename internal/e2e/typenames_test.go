package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
)

// TestGPUTypeNames runs a cluster with two products of one family, a GPU with MIG devices and a display card. Each name
// gets the devices that it names, and a precise name that no device has waits.
func TestGPUTypeNames(t *testing.T) {
	t.Parallel()
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(roles, []byte("\"*\": {}\nprecise: \"A100-80GB=1\"\nslices: \"1g.10gb=1, A100=4\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, "--roles", roles, "--work-dir", makeWorkDir(t),
		"--agents", "1x1xDGX Display+2xA100-40GB+1xA100-80GB,1x3xA100-80GB-1g.10gb+1xA100-80GB-2g.20gb")

	const large, small, slice = "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
	for i, one := range []struct {
		flags    string
		accepted []string // products of the task's device
	}{
		{"--gpus 1", []string{large, small}},
		{"--gpus 1 --gpu-type A100", []string{large, small}},
		{"--gpus 2 --gpu-type A100-40GB", []string{small}},
		{"--gpus 1 --gpu-type A100-80GB", []string{large}},
		{"--gpus 1 --gpu-type NVIDIA-A100-SXM4-80GB", []string{large}},
		{"--gpus 1 --gpu-type nvidia_a100-sxm4-80gb", []string{large}},
		{"--gpus 1 --not-gpu-type A100-40GB", []string{large}},
		{"--gpus 1 --constraint gpu_type:IS:A100-80GB", []string{large}},
		{"--gpus 1 --constraint gpu_type:UNLIKE:.*80GB", []string{small}},
		{"--gpus 1 --gpu-type 1g.10gb", []string{slice}},
		{"--gpus 2 --gpu-type A100-80GB-1g.10gb", []string{slice}},
		{"--gpus 1 --gpu-type mig-2g.20gb", []string{large + " MIG 2g.20gb"}},
		{"--gpus 1 --gpu-type same,A100-80GB --gang", []string{large}},
		{"--gpus 1 --gpu-type DGX_Display", []string{"NVIDIA DGX Display"}},
	} {
		name := fmt.Sprintf("job-%d", i)
		c.mustRun(slices.Concat([]string{"run", "--name", name, "--cpus", "0.1", "--mem", "32"}, expandFlags(one.flags), []string{"--", "true"})...)
		view := c.awaitJob(name, func(*api.JobView) bool { return true })
		held := slices.Sorted(maps.Keys(view.Tasks[0].HeldProducts()))
		for at, product := range held { // a product whose name has no size is recorded with its memory
			held[at], _, _ = strings.Cut(product, " 4096MiB")
		}
		if len(held) != 1 || !slices.Contains(one.accepted, held[0]) {
			t.Errorf("%s got %q, want one of %q", one.flags, held, one.accepted)
		}
	}

	for _, waiting := range []struct{ flags, reason string }{
		{"--gpus 2 --gpu-type A100-80GB", "the largest has 1"},
		{"--gpus 1 --gpu-type A100-PCIE-40GB", large + " on 1"},
		{"--gpus 1 --gpu-type V100-32GB", "no agent has the type, 2 agents are known: A100 MIG 1g.10gb on 1, A100 MIG 2g.20gb on 1, A100 on 1, DGX Display on 1"},
		{"--gpus 1 --gpu-type A100-3g.40gb", "no agent has the type"},
	} {
		c.mustRun(slices.Concat([]string{"run", "--detach", "--name", "waits", "--cpus", "0.1", "--mem", "32"}, expandFlags(waiting.flags), []string{"--", "true"})...)
		if text := c.mustRun("describe", "waits"); !strings.Contains(text, waiting.reason) {
			t.Errorf("%s waits because\n%s\nwant %q", waiting.flags, text, waiting.reason)
		}
		c.mustRun("kill", "waits")
		c.awaitJobEnd("waits")
	}

	// One 80 GB GPU is what the first role may hold: another waits for the quota, and a 40 GB GPU does not count.
	hold := func(name, role, gpuType string) {
		c.mustRun("run", "--detach", "--name", name, "--role", role, "--gpus", "1", "--cpus", "0.1", "--mem", "32", "--gpu-type", gpuType, "--", "sleep", "1000")
	}
	hold("large", "precise", "A100")
	hold("slice", "slices", "1g.10gb")
	for _, name := range []string{"large", "slice"} {
		c.mustRun("wait", "--for", "running", name)
	}
	hold("small", "precise", "A100-40GB")
	c.mustRun("wait", "--for", "running", "small")
	hold("second-slice", "slices", "1g.10gb")
	if text := c.mustRun("describe", "second-slice"); !strings.Contains(text, "it may hold 1 1g.10gb and holds 1") {
		t.Errorf("the second MIG device waits because\n%s", text)
	}
	var roleViews api.RoleList
	decodeJSON(t, readURL(t, c.api+"/v1/roles", ""), &roleViews)
	for _, r := range roleViews.Roles {
		if r.Name == "slices" && (r.Allocated["1g.10gb"] != 1 || r.Allocated["A100"] != 1) {
			t.Errorf("role slices holds %v, want 1 in 1g.10gb and in A100", r.Allocated)
		}
	}
	for _, name := range []string{"large", "slice", "small", "second-slice"} {
		c.mustRun("kill", name)
		c.awaitJobEnd(name)
	}
}

// expandFlags splits flags at spaces. A colon in a constraint stands for a space.
func expandFlags(text string) []string {
	words := strings.Fields(text)
	for i := range words {
		if i > 0 && words[i-1] == "--constraint" {
			words[i] = strings.ReplaceAll(words[i], ":", " ")
		}
	}
	return words
}
