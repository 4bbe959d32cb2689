package cdi

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"mesos-gpu/volumemgr"
)

const v535 = "535.104.05"

// sampleInput has the volume of a simulated driver with one host file, on a host with a
// GPU and two MIG devices of another GPU.
func sampleInput(t *testing.T) SpecInput {
	t.Helper()
	root := t.TempDir()
	if err := volumemgr.WriteSimulatedDriver(root, v535); err != nil {
		t.Fatal(err)
	}
	icd := filepath.Join(root, "etc/OpenCL/vendors/nvidia.icd")
	if err := os.MkdirAll(filepath.Dir(icd), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(icd, []byte("libnvidia-opencl.so.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	store := volumemgr.Store{Dir: t.TempDir()}
	v, err := volumemgr.EnsureVolume(context.Background(), volumemgr.DriverSearch{Root: root}, store)
	if err != nil {
		t.Fatal(err)
	}
	m, err := store.Inspect(v.Name)
	if err != nil {
		t.Fatal(err)
	}
	node := func(name string) SpecNode { return SpecNode{"/dev/" + name, "/srv/dev/" + name} }
	return SpecInput{
		Volume: v, Manifest: m,
		Common: []SpecNode{{"/dev/nvidiactl", "/dev/nvidiactl"}},
		Devices: []SpecDevice{
			{[]string{"0", "GPU-a"}, []SpecNode{node("nvidia0")}, []SpecNode{node("dri/card1")}},
			{[]string{"1", "MIG-b"}, []SpecNode{node("nvidia1"), node("nvidia-caps/nvidia-cap3")}, nil},
			{[]string{"2", "MIG-c"}, []SpecNode{node("nvidia1"), node("nvidia-caps/nvidia-cap4")}, nil},
		},
		Sockets: []SpecNode{{"/run/nvidia-persistenced/socket", "/srv/run/nvidia-persistenced/socket"}},
	}
}

func TestBuildSpec(t *testing.T) {
	in := sampleInput(t)
	spec, err := BuildSpec(in)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return "/dev/" + name + " /srv/dev/" + name + " rw" }
	want := map[string][]string{
		"0": {at("nvidia0"), at("dri/card1")}, "GPU-a": {at("nvidia0"), at("dri/card1")},
		"1": {at("nvidia1"), at("nvidia-caps/nvidia-cap3")}, "MIG-b": {at("nvidia1"), at("nvidia-caps/nvidia-cap3")},
		"2": {at("nvidia1"), at("nvidia-caps/nvidia-cap4")}, "MIG-c": {at("nvidia1"), at("nvidia-caps/nvidia-cap4")},
		"all": {at("nvidia0"), at("dri/card1"), at("nvidia1"), at("nvidia-caps/nvidia-cap3"), at("nvidia-caps/nvidia-cap4")},
	}
	if diff := cmp.Diff(want, nodesOf(spec)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if spec.Version != specVersion || spec.Kind != "nvidia.com/gpu" {
		t.Errorf("got version %s of %s", spec.Version, spec.Kind)
	}
	if n := spec.ContainerEdits.DeviceNodes; len(n) != 1 || n[0].Path != "/dev/nvidiactl" || n[0].HostPath != "" {
		t.Errorf("common nodes: %+v", n)
	}
	mounts := mountsOf(spec)
	wantMounts := map[string]string{"/usr/local/nvidia": in.Volume.Path, "/etc/OpenCL/vendors/nvidia.icd": in.Manifest.HostFiles[0].Source,
		"/run/nvidia-persistenced/socket": "/srv/run/nvidia-persistenced/socket"}
	if diff := cmp.Diff(wantMounts, mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	for _, m := range spec.ContainerEdits.Mounts {
		if !slices.Contains(m.Options, "ro") {
			t.Errorf("%s can be written", m.ContainerPath)
		}
	}
}

// nodesOf returns the nodes of each device.
func nodesOf(spec specs.Spec) map[string][]string {
	devices := map[string][]string{}
	for _, d := range spec.Devices {
		for _, n := range d.ContainerEdits.DeviceNodes {
			devices[d.Name] = append(devices[d.Name], n.Path+" "+n.HostPath+" "+n.Permissions)
		}
	}
	return devices
}

func mountsOf(spec specs.Spec) map[string]string {
	mounts := map[string]string{}
	for _, m := range spec.ContainerEdits.Mounts {
		mounts[m.ContainerPath] = m.HostPath
	}
	return mounts
}

// With capabilities each file is mounted at each of its names.
func TestBuildSpecWithCapabilities(t *testing.T) {
	in := sampleInput(t)
	in.Capabilities = []volumemgr.Capability{volumemgr.Utility}
	spec, err := BuildSpec(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for path := range mountsOf(spec) {
		got = append(got, path)
	}
	slices.Sort(got)
	want := []string{
		"/run/nvidia-persistenced/socket",
		"/usr/local/nvidia/bin/nvidia-debugdump", "/usr/local/nvidia/bin/nvidia-smi",
		"/usr/local/nvidia/lib64/libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so." + v535,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if source := mountsOf(spec)["/usr/local/nvidia/lib64/libnvidia-ml.so.1"]; source != filepath.Join(in.Volume.Path, "lib64/libnvidia-ml.so."+v535) {
		t.Errorf("the further name is mounted from %s", source)
	}
	for _, c := range []struct {
		wanted          volumemgr.Capability
		drawing, socket bool
	}{{volumemgr.Utility, false, true}, {volumemgr.Compute, false, false}, {volumemgr.Graphics, true, false}, {volumemgr.Display, true, false}} {
		in.Capabilities = []volumemgr.Capability{c.wanted}
		spec, err := BuildSpec(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(nodesOf(spec)["0"]) == 2; got != c.drawing {
			t.Errorf("%s: draws: %v, want %v", c.wanted, got, c.drawing)
		}
		if got := mountsOf(spec)["/run/nvidia-persistenced/socket"] != ""; got != c.socket {
			t.Errorf("%s: has the socket: %v, want %v", c.wanted, got, c.socket)
		}
	}
}

func TestBuildSpecErrors(t *testing.T) {
	in := sampleInput(t)
	in.Devices[1].Names[1] = "GPU-a"
	if _, err := BuildSpec(in); err == nil || !strings.Contains(err.Error(), `two devices named "GPU-a"`) {
		t.Errorf("two of a name: %v", err)
	}
	in.Devices = nil
	if _, err := BuildSpec(in); err == nil || !strings.Contains(err.Error(), "has no GPU") {
		t.Errorf("no device: %v", err)
	}
}

func TestWriteSpec(t *testing.T) {
	spec, err := BuildSpec(sampleInput(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cdi")
	path := filepath.Join(dir, "mesos-gpu.json")
	for range 2 {
		if err := WriteSpec(path, spec); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back specs.Spec
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec, back); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("in the folder: %v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v; runtimes of other users read it", info.Mode(), err)
	}
	if err := WriteSpec(filepath.Join(dir, "spec"), spec); err == nil || !strings.Contains(err.Error(), "does not end in .json") {
		t.Errorf("a file name that engines ignore: %v", err)
	}
	if err := WriteSpec("/dev/null/spec.json", spec); err == nil {
		t.Error("a file below a file was written")
	}
}
