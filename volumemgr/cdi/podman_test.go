package cdi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/volumemgr"
)

// podmanScript runs podman in its own mount namespace, because podman reads
// specifications from fixed folders and keeps locks and caches in others. Its arguments
// are podman's storage, the specification, an image archive, the image's name, a cgroup,
// a device, and a script.
const podmanScript = `set -e
mkdir -p /var/lib/containers
for dir in /run /dev/shm /var/lib/containers; do mount -t tmpfs tmpfs $dir; done
mkdir /run/cdi
cp "$2" /run/cdi/
podman() {
	command podman --root "$storage" --runroot /run/podman --network-config-dir /run/networks --runtime "$(command -v runc)" --storage-driver vfs --cgroup-manager cgroupfs --events-backend none "$@"
}
storage=$1
podman load -q <"$3" >/dev/null
podman run --rm --network none --cap-add mknod --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --cgroup-parent "$5" --device "$6" "$4" /bin/sh -c "$7"`

// listScript prints the GPU nodes in a container's /dev, the nodes that the kernel lets
// it open, including nodes that it creates itself, and the driver.
const listScript = `ls /dev | grep -E 'nvidia|dri' | tr '\n' ' '; echo
for minor in 0 1; do
	mknod /tmp/gpu$minor c 195 $minor
	(cat </tmp/gpu$minor) 2>&1 | grep -q 'Operation not permitted' && echo "GPU $minor is closed"
done
nvidia-debugdump
cat /etc/OpenCL/vendors/nvidia.icd
ls -l /usr/local/nvidia/lib64/libcuda.so.1 | grep -o 'libcuda.so.1.*'
touch /usr/local/nvidia/new 2>&1 | grep -o 'Read-only file system'
echo "$NVIDIA_VISIBLE_DEVICES"`

// Tests the specification with a real runtime.
func TestRootPodman(t *testing.T) {
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "podman", "podman")
	testneeds.RequireProgram(t, "runc", "runc")
	in := sampleInput(t)
	dev := t.TempDir()
	node := func(name string, minor uint32) SpecNode {
		path := filepath.Join(dev, name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(195, minor))); err != nil {
			t.Fatal(err)
		}
		return SpecNode{"/dev/" + name, path}
	}
	in.Common, in.Sockets = []SpecNode{node("nvidiactl", 255)}, nil
	in.Devices = []SpecDevice{
		{Names: []string{"0", "GPU-a"}, Nodes: []SpecNode{node("nvidia0", 0)}},
		{Names: []string{"1", "GPU-b"}, Nodes: []SpecNode{node("nvidia1", 1)}},
	}
	archive := testimage.BusyboxArchive(t, "mesos-gpu-cdi-test", nil, []string{"PATH=/bin:/usr/local/nvidia/bin"})
	const rest = "SIMULATED nvidia-debugdump " + v535 + "\nlibnvidia-opencl.so.1\nlibcuda.so.1 -> libcuda.so." + v535 + "\nRead-only file system\nvoid\n"
	for _, c := range []struct{ device, want string }{
		{"nvidia.com/gpu=0", "nvidia0 nvidiactl \nGPU 1 is closed\n" + rest},
		{"nvidia.com/gpu=GPU-b", "nvidia1 nvidiactl \nGPU 0 is closed\n" + rest},
		{"nvidia.com/gpu=all", "nvidia0 nvidia1 nvidiactl \n" + rest},
	} {
		t.Run(c.device, func(t *testing.T) {
			if got := runPodman(t, in, archive, c.device, listScript); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	in.Capabilities = []volumemgr.Capability{volumemgr.Utility}
	got := runPodman(t, in, archive, "nvidia.com/gpu=0", "cd /usr/local/nvidia && find . -type f | sort")
	want := "./bin/nvidia-debugdump\n./bin/nvidia-smi\n./lib64/libnvidia-ml.so.1\n./lib64/libnvidia-ml.so." + v535 + "\n"
	if got != want {
		t.Errorf("of utility alone: got\n%s\nwant\n%s", got, want)
	}
}

// runPodman runs a script in a container with that device, and returns its output.
func runPodman(t *testing.T, in SpecInput, archive, device, script string) string {
	t.Helper()
	spec, err := BuildSpec(in)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "mesos-gpu.json")
	if err := WriteSpec(file, spec); err != nil {
		t.Fatal(err)
	}
	cgroup := fmt.Sprintf("/mesos-gpu-cdi-test-%d", os.Getpid())
	defer removeCgroups(cgroup)
	cmd := exec.Command("/bin/bash", "-c", podmanScript, "podman", filepath.Join(dir, "storage"), file, archive,
		"mesos-gpu-cdi-test", cgroup, device, script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("podman: %v\n%s", err, out)
	}
	return string(out)
}

// removeCgroups removes the empty cgroups that podman leaves below that name, in the
// hierarchies of both versions.
func removeCgroups(name string) {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		for _, below := range []string{"/*", ""} {
			found, _ := filepath.Glob(root + name + below) // the only possible error is a bad pattern
			for _, path := range found {
				_ = unix.Rmdir(path) // its files need not be removed first
			}
		}
	}
}
