package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

func readlink(t *testing.T, path string) string {
	t.Helper()
	target, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func nofile(soft, hard uint64) *mesos.RLimitInfo {
	return &mesos.RLimitInfo{Rlimits: []mesos.RLimitInfo_RLimit{
		{Type: mesos.RLimitInfo_RLimit_RLMT_NOFILE, Soft: &soft, Hard: &hard}, {Type: mesos.RLimitInfo_RLimit_RLMT_CORE},
	}}
}

const ulimits = `ulimit -Sn; ulimit -Hn; ulimit -c`

// Volumes, rlimits and shared memory apply to a container with an image, and
// rlimits to one without.
func TestNestedContainerInfo(t *testing.T) {
	testneeds.RequireProgram(t, "runc", "runc")
	archive := testimage.BusyboxArchive(t, "app:1", nil, nil)
	r := gpuRig(t, func(c *AgentConfig) { c.ImagesDir = filepath.Dir(archive) })
	p := r.parent()
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "in"), []byte("from the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	size := uint32(24)
	info := imageInfo("app:1")
	info.Volumes = []mesos.Volume{
		{Mode: mesos.RO.Enum(), ContainerPath: "/ro", HostPath: &data}, {Mode: mesos.RW.Enum(), ContainerPath: "/rw", HostPath: &data},
	}
	info.RlimitInfo = nofile(77, 99)
	info.LinuxInfo = &mesos.LinuxInfo{IPCMode: mesos.LinuxInfo_PRIVATE.Enum(), SHMSize: &size}
	_, out := r.nestAndWait(below(p, "image"),
		shell(`cat /ro/in; touch /ro/x 2>&1; echo to the host > /rw/out; df -m /dev/shm | tail -1 | tr -s ' ' | cut -d' ' -f2; `+ulimits),
		info)
	if want := "from the host\ntouch: /ro/x: Read-only file system\n24\n77\n99\nunlimited\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	if text, err := os.ReadFile(filepath.Join(data, "out")); err != nil || string(text) != "to the host\n" {
		t.Errorf("the host reads %q (%v)", text, err)
	}
	_, out = r.nestAndWait(below(p, "process"), shell(ulimits), &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), RlimitInfo: nofile(78, 98)})
	if want := "78\n98\nunlimited\n"; out != want {
		t.Errorf("without an image got %q, want %q", out, want)
	}
	// The next container has the agent's own limits.
	if _, out = r.nestAndWait(below(p, "next"), shell(ulimits), nil); strings.HasPrefix(out, "78\n") {
		t.Errorf("another container got the same limits: %q", out)
	}
}

// A changed archive is read again, with and without force_pull_image.
func TestChangedArchiveIsReadAgain(t *testing.T) {
	testneeds.RequireProgram(t, "runc", "runc")
	folder := filepath.Dir(testimage.BusyboxArchive(t, "app:1", nil, []string{"IS=old"}))
	r := gpuRig(t, func(c *AgentConfig) { c.ImagesDir = folder })
	p := r.parent()
	info := imageInfo("app:1")
	info.Mesos.Image.Cached = new(bool)
	if _, out := r.nestAndWait(below(p, "n1"), shell("echo $IS"), info); out != "old\n" {
		t.Errorf("got %q", out)
	}
	if err := os.Rename(testimage.BusyboxArchive(t, "app:1", nil, []string{"IS=new"}), filepath.Join(folder, "app:1.tar")); err != nil {
		t.Fatal(err)
	}
	if _, out := r.nestAndWait(below(p, "n2"), shell("echo $IS"), info); out != "new\n" {
		t.Errorf("got %q", out)
	}
}

func TestRefusedContainerInfo(t *testing.T) {
	absent, some, soft := "/no/such/folder", uint32(1), uint64(5)
	half := &mesos.RLimitInfo{Rlimits: []mesos.RLimitInfo_RLimit{{Type: mesos.RLimitInfo_RLimit_RLMT_CPU, Soft: &soft}}}
	tests := []struct {
		name, want string
		image      bool
		change     func(*mesos.ContainerInfo)
	}{
		{"volume that is not there", "no such file", true, func(c *mesos.ContainerInfo) {
			c.Volumes = []mesos.Volume{{Mode: mesos.RO.Enum(), ContainerPath: "/x", HostPath: &absent}}
		}},
		{"volume without an image", "need an image", false, func(c *mesos.ContainerInfo) {
			c.Volumes = []mesos.Volume{{Mode: mesos.RO.Enum(), ContainerPath: "/x"}}
		}},
		{"shared memory without an image", "needs an image", false, func(c *mesos.ContainerInfo) { c.LinuxInfo = &mesos.LinuxInfo{SHMSize: &some} }},
		{"its parent's memory", "PRIVATE", true, func(c *mesos.ContainerInfo) {
			c.LinuxInfo = &mesos.LinuxInfo{IPCMode: mesos.LinuxInfo_SHARE_PARENT.Enum()}
		}},
		{"capabilities", "linux_info", true, func(c *mesos.ContainerInfo) {
			c.LinuxInfo = &mesos.LinuxInfo{EffectiveCapabilities: &mesos.CapabilityInfo{}}
		}},
		{"half a limit", "one number of two", false, func(c *mesos.ContainerInfo) { c.RlimitInfo = half }},
		{"soft above hard", "above its hard limit 1", false, func(c *mesos.ContainerInfo) { c.RlimitInfo = nofile(2, 1) }},
	}
	testneeds.RequireProgram(t, "runc", "runc")
	archive := testimage.BusyboxArchive(t, "app:1", nil, nil)
	r := gpuRig(t, func(c *AgentConfig) { c.ImagesDir = filepath.Dir(archive) })
	p := r.parent()
	for _, tt := range tests {
		info := &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum()}
		if tt.image {
			info = imageInfo("app:1")
		}
		tt.change(info)
		wantStatus(t, tt.name, r.nest(below(p, "n"), shell("true"), info), 400, tt.want)
	}
	plain := newRig(t, false, nil)
	wantStatus(t, "limits without root",
		plain.nest(below(plain.parent(), "n"), shell("true"), &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), RlimitInfo: nofile(1, 1)}),
		400, "runs as root")
}
