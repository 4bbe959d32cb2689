package container

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/internal/local/agent/image"
	"mesos-gpu/internal/local/agent/oci"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/rules"
)

// bundled returns a spec that runs a command in a busybox image by runc.
func (r *rig) bundled(args ...string) (LaunchSpec, oci.ContainerSpec) {
	r.t.Helper()
	archive := testimage.BusyboxArchive(r.t, "busybox:test", nil, nil)
	img, err := image.NewStore(filepath.Dir(archive), filepath.Join(r.dir, "store")).Get(r.t.Context(), "busybox:test")
	if err != nil {
		r.t.Fatal(err)
	}
	s := r.spec("")
	bundle := filepath.Join(r.dir, s.ID[0])
	for _, name := range []string{"rootfs", "upper", "work"} {
		if err := os.MkdirAll(filepath.Join(bundle, name), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
	s.OCI = &RuncBundle{
		Runc: testneeds.RequireProgram(r.t, "runc", "runc"), State: filepath.Join(r.dir, "state"), Bundle: bundle, ID: s.ID[0],
		Lower: img.Rootfs, Upper: filepath.Join(bundle, "upper"), Work: filepath.Join(bundle, "work"),
	}
	s.Isolate = granted
	return s, oci.ContainerSpec{
		Args: args, Env: oci.MergeEnv(), Dir: "/", Cgroup: r.engine.CgroupPath(s.ID) + "/.oci", Nodes: gpus(),
		Rules: append(rules.StandardRules(), rules.DeviceRule{Kind: 'c', Major: rules.NvidiaMajor, Minor: 1, Access: "rw"}),
	}
}

func (r *rig) writeConfig(s LaunchSpec, c oci.ContainerSpec) {
	r.t.Helper()
	text, err := json.Marshal(oci.BuildSpec(c))
	if err == nil {
		err = os.WriteFile(filepath.Join(s.OCI.Bundle, "config.json"), text, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestRuncContainer(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	s, c := r.bundled("/bin/sh", "-c", tryGPUs+`
		ls -d /dev/nv*; touch /written; cat /proc/self/cgroup | grep devices:
		grep CapEff /proc/self/status; grep NoNew /proc/self/status; cat /proc/kcore | wc -c; exit 4`)
	r.writeConfig(s, c)
	status := r.wait(r.launch(s))
	if !status.Exited() || status.ExitStatus() != 4 {
		t.Errorf("status %#x, want exit 4; stderr %s", int(status), r.read(s.Stderr.Name()))
	}
	got := r.read(s.Stdout.Name())
	wantGrant(t, got)
	for _, want := range []string{
		"/dev/nvidia-caps\n/dev/nvidia0\n/dev/nvidia1", "devices:" + c.Cgroup + "\n", "CapEff:\t00000000a80425fb", "NoNewPrivs:\t1", "\n0",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if _, err := os.Stat(filepath.Join(s.OCI.Lower, "written")); err == nil {
		t.Error("the container wrote into the store")
	}
	if entries, err := os.ReadDir(filepath.Join(s.OCI.Bundle, "rootfs")); err != nil || len(entries) != 0 {
		t.Errorf("rootfs holds %v on the host: its mount leaked (%v)", entries, err)
	}
}

func TestRuncSignalsAndErrors(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	s, c := r.bundled("/bin/sleep", "1000")
	r.writeConfig(s, c)
	running := r.launch(s)
	if err := running.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := r.wait(running); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("status %#x, want killed by SIGTERM", int(status))
	}

	s, c = r.bundled("/no/such/program")
	r.writeConfig(s, c)
	if _, err := r.engine.Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("error %v, want one that names the program", err)
	}

	s, c = r.bundled("/bin/true")
	r.writeConfig(s, c)
	s.OCI.Lower = "/no/such/folder"
	_, err := r.engine.Launch(t.Context(), s)
	if !errors.As(err, new(OverlayError)) {
		t.Errorf("error %v, want one of the overlay stage", err)
	}
}
