package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/cli/volumes"
	"mesos-gpu/internal/testing/termtest"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/volumemgr"
)

const v535, v470 = "535.104.05", "470.57.02"

// volumeTest is a driver root, a store, and the means to run volume commands on them.
type volumeTest struct {
	t         *testing.T
	root, dir string
	env       map[string]string
}

func newVolumes(t *testing.T) *volumeTest {
	t.Helper()
	v := &volumeTest{t: t, root: t.TempDir(), dir: filepath.Join(t.TempDir(), "volumes")}
	if err := volumemgr.WriteSimulatedDriver(v.root, v535); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *volumeTest) run(args ...string) (code int, out, errs string) {
	v.t.Helper()
	var stdout, stderr bytes.Buffer
	getenv := func(name string) string { return v.env[name] }
	code = runCommandLine(context.Background(), append([]string{"volume", "--dir", v.dir}, args...), cli.ProcessIO{
		Stdin:  nil,
		Stdout: &stdout,
		Stderr: &stderr,
		Getenv: getenv,
	})
	return code, stdout.String(), stderr.String()
}

// must expects exit status 0 and an empty standard error.
func (v *volumeTest) must(args ...string) string {
	v.t.Helper()
	code, out, errs := v.run(args...)
	if code != 0 || errs != "" {
		v.t.Fatalf("volume %s: exit status %d, %s", strings.Join(args, " "), code, errs)
	}
	return out
}

func TestVolumeCommands(t *testing.T) {
	v := newVolumes(t)
	name, path := "nvidia_"+v535, filepath.Join(v.dir, "nvidia_"+v535)
	if got, want := v.must("create", "--driver-root", v.root), fmt.Sprintf("%s\t16 files\t%s\n", name, path); got != want {
		t.Errorf("create says %q, want %q", got, want)
	}
	if got := v.must("list"); !strings.Contains(got, "NAME") || !strings.Contains(got, name) || !strings.Contains(got, path) {
		t.Errorf("list says\n%s", got)
	}
	shown := strings.Join(strings.Fields(v.must("inspect", name)), " ")
	if want := "lib64/libcuda.so." + v535 + " compute 0.0 MiB link - libcuda.so libcuda.so.1"; !strings.Contains(shown, want) {
		t.Errorf("inspect says %s, want %q in it", shown, want)
	}
	if got := v.must("verify"); got != name+"\t16 files\twhole\n" {
		t.Errorf("verify says %q", got)
	}
	var m volumemgr.Manifest
	if err := json.Unmarshal([]byte(v.must("inspect", name, "-o", "json")), &m); err != nil || len(m.Files) != 16 || len(m.Files[0].SHA256) != 64 {
		t.Errorf("inspect -o json: %v, %+v", err, m)
	}
	link := filepath.Join(path, "lib64/libcuda.so")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	code, out, errs := v.run("verify", name)
	if code != 1 || !strings.Contains(out, "damaged, 1 faults\n  lib64/libcuda.so is no link to") || !strings.Contains(errs, "1 of 1 volumes are damaged") {
		t.Errorf("verify of a damaged one: %d, %q, %q", code, out, errs)
	}
	code, out, errs = v.run("verify", "--repair", "--driver-root", v.root)
	if code != 0 || out != name+"\t16 files\twhole\n" || !strings.HasPrefix(errs, "repair: lib64/libcuda.so is no link") {
		t.Errorf("repair: %d, %q, %q", code, out, errs)
	}
	if _, err := os.Stat(link); err != nil {
		t.Error(err)
	}
}

func TestVolumeErrors(t *testing.T) {
	v := newVolumes(t)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"inspect"}, 2, "needs a volume's name"},
		{[]string{"inspect", "driver"}, 1, `"driver" is not a volume's name: use nvidia_ and a driver version`},
		{[]string{"verify", "nvidia_1.2"}, 1, "no such volume"},
		{[]string{"create", "--driver-root", t.TempDir()}, 1, "no NVIDIA driver"},
		{[]string{"cdi", "--capabilities", "cuda"}, 2, `driver capability "cuda" must be one of all`},
		{[]string{"cdi", "--simulate", "2xV100", "--driver-root", v.root, "--output", filepath.Join(v.dir, "spec")}, 1, "does not end in .json"},
		{[]string{"destroy"}, 2, `unknown command "destroy"`},
		{[]string{"plugin", "--socket", "/dev/null/x.sock"}, 1, "serve volume plugin"},
	} {
		if code, _, errs := v.run(c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("volume %s: exit status %d, %q; want %d, %q", strings.Join(c.args, " "), code, errs, c.code, c.want)
		}
	}
}

func TestVolumeGC(t *testing.T) {
	testneeds.RequireRoot(t)
	v := newVolumes(t)
	v.must("create", "--driver-root", v.root)
	old := t.TempDir()
	if err := volumemgr.WriteSimulatedDriver(old, v470); err != nil {
		t.Fatal(err)
	}
	v.must("create", "--driver-root", old)
	kept := "kept nvidia_" + v535 + ": it is of the driver that runs\n"
	if got := v.must("gc", "--no-docker", "--driver-root", v.root, "--dry-run"); got != "would remove nvidia_"+v470+" (0.0 MiB)\n"+kept {
		t.Errorf("dry run says %q", got)
	}
	if got := v.must("gc", "--no-docker", "--driver-root", v.root); got != "removed nvidia_"+v470+" (0.0 MiB)\n"+kept {
		t.Errorf("gc says %q", got)
	}
	if got := v.must("gc", "--no-docker", "--driver-root", v.root, "-o", "json"); !strings.Contains(got, `"removed": []`) {
		t.Errorf("gc -o json says %s", got)
	}
}

func TestVolumeCDI(t *testing.T) {
	v := newVolumes(t)
	dev := t.TempDir()
	for _, name := range []string{"nvidia0", "nvidiactl"} {
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output := filepath.Join(t.TempDir(), "mesos-gpu.json")
	v.must("cdi", "--driver-root", v.root, "--simulate", "2xV100", "--dev", dev, "--output", output)
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Devices) != 5 || spec.Devices[0].Name != "0" || !strings.HasPrefix(spec.Devices[1].Name, "GPU-") || spec.Devices[4].Name != "all" {
		t.Errorf("devices: %+v", spec.Devices)
	}
	if n := spec.Devices[0].ContainerEdits.DeviceNodes; len(n) != 1 || n[0].Path != "/dev/nvidia0" || n[0].HostPath != filepath.Join(dev, "nvidia0") {
		t.Errorf("the first GPU's nodes: %+v", n)
	}
	// nvidiactl is the only control node that exists.
	if n := spec.ContainerEdits.DeviceNodes; len(n) != 1 || n[0].Path != "/dev/nvidiactl" {
		t.Errorf("common nodes: %+v", n)
	}
	if m := spec.ContainerEdits.Mounts; len(m) != 1 || m[0].HostPath != filepath.Join(v.dir, "nvidia_"+v535) {
		t.Errorf("mounts: %+v", m)
	}
	if out := v.must("cdi", "--driver-root", v.root, "--simulate", "V100", "--dev", dev, "--capabilities", "utility"); !strings.Contains(out,
		`"/usr/local/nvidia/lib64/libnvidia-ml.so.1"`) || strings.Contains(out, "libcuda") {
		t.Errorf("of utility alone:\n%s", out)
	}
}

// Commands that read much data draw a progress bar on a terminal.
func TestVolumeVerifyOnATerminal(t *testing.T) {
	v := newVolumes(t)
	v.must("create", "--driver-root", v.root)
	screen, tty := termtest.OpenTerminal(t, 80)
	var out bytes.Buffer
	if code := runCommandLine(context.Background(), []string{"volume", "--dir", v.dir, "verify"}, cli.ProcessIO{
		Stdin:  nil,
		Stdout: &out,
		Stderr: tty,
		Getenv: os.Getenv,
	}); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(screen) // ends with EIO when the terminal is closed
	if want := "reading nvidia_" + v535 + " [##############################] 100% of 0.0 MiB\r\x1b[K"; !strings.HasSuffix(string(text), want) {
		t.Errorf("the screen got %q, want its end to be %q", text, want)
	}
	if got := out.String(); got != "nvidia_"+v535+"\t16 files\twhole\n" {
		t.Errorf("verify says %q", got)
	}
}

func TestVolumeProgress(t *testing.T) {
	screen, tty := termtest.OpenTerminal(t, 80)
	a := &cli.App{ProcessIO: cli.ProcessIO{Stderr: tty}}
	part, done := a.StartProgress("reading", 4<<20)
	for range 4 {
		part(1 << 20)
	}
	part(1 << 20) // more than announced
	done()
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(screen) // ends with EIO when the terminal is closed
	for _, want := range []string{
		"\rreading [#######                       ]  25% of 4.0 MiB",
		"\rreading [##############################] 100% of 4.0 MiB\r\x1b[K",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the screen got %q, want %q in it", text, want)
		}
	}
	if part, _ := (&cli.App{ProcessIO: cli.ProcessIO{Stderr: io.Discard}}).StartProgress("reading", 1); part != nil {
		t.Error("a bar is drawn where there is no terminal")
	}
}

// RepairDriverVolume does what the daemon does to the volume when it starts.
func TestRepairDriverVolume(t *testing.T) {
	v := newVolumes(t)
	v.must("create", "--driver-root", v.root)
	if told, err := volumes.RepairDriverVolume(t.Context(), volumemgr.DriverSearch{Root: v.root}, v.dir); len(told) != 0 || err != nil {
		t.Errorf("a whole volume: %v, %v", told, err)
	}
	cuda := filepath.Join(v.dir, "nvidia_"+v535, "lib64/libcuda.so."+v535)
	if err := os.Remove(cuda); err != nil {
		t.Fatal(err)
	}
	told, err := volumes.RepairDriverVolume(t.Context(), volumemgr.DriverSearch{Root: v.root}, v.dir)
	if diff := cmp.Diff([]string{"lib64/libcuda.so." + v535 + " is missing"}, told); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := os.Stat(cuda); err != nil {
		t.Error(err)
	}
	if _, err := volumes.RepairDriverVolume(t.Context(), volumemgr.DriverSearch{Root: t.TempDir()}, v.dir); !errors.Is(err, volumemgr.ErrNoDriver) {
		t.Errorf("without a driver: %v", err)
	}
}
