package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// limiterBuild is what tests of shared devices need: libmesosgpu.so for the agent, and an
// image with a fake driver, which accounts for allocations, and a program that executes the
// commands on its standard input (isolator/limiter/testdata).
type limiterBuild struct{ library, archive string }

func buildLimiter(t *testing.T, image string) limiterBuild {
	t.Helper()
	testneeds.RequireProgram(t, "gcc", "gcc")
	testneeds.RequireProgram(t, "make", "make")
	dir, here := t.TempDir(), "../../isolator/limiter/"
	uuids, err := filepath.Abs("testdata/uuid.c")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Abs("../../bin/test-build/e2e-limiter") // make compiles only what has changed since the last run
	if err != nil {
		t.Fatal(err)
	}
	for _, build := range [][]string{
		{"make", "-s", "-j2", "-C", here, "OUT=" + kept, "limiter"},
		{"make", "-s", "-j2", "-C", here, "OUT=" + dir, "CFLAGS=-O2 -Wl,--wrap=uuid_of " + uuids, "standin"},
		{"gcc", "-O1", "-o", dir + "/program", here + "testdata/program.c"},
		{"gcc", "-O1", "-o", dir + "/make_device", here + "testdata/make_device.c", dir + "/libcuda.so.1"},
	} {
		if out, err := exec.Command(build[0], build[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(build, " "), err, out)
		}
	}
	return limiterBuild{filepath.Join(kept, "libmesosgpu.so"), testimage.BusyboxArchive(t, image, nil, nil,
		testimage.LinkedProgram("/bin/program", dir+"/program"), testimage.LinkedProgram("/bin/make_device", dir+"/make_device"),
		testimage.LinkedProgram("/usr/lib/libcuda.so.1", dir+"/libcuda.so.1"), testimage.LinkedProgram("/usr/lib/libnvidia-ml.so.1", dir+"/libnvidia-ml.so.1"))}
}

// The memory that the fake driver uses for a context, and the share of each task in these
// tests.
const (
	contextBytes = 64 << 20
	shareMiB     = 3072
	shareBytes   = shareMiB << 20
)

// fillShareScript is run by a task with shareMiB of a device. A process allocates all of it;
// then neither it nor another process can allocate a byte until the first one is killed. A
// second process then allocates everything and holds it until /tmp/end exists.
var fillShareScript = fmt.Sprintf(`export STANDIN_DEVICE=/tmp/device
make_device /tmp/device %d 0 0
mkfifo /tmp/in
touch /tmp/out /tmp/again
say() { printf '1 retain 0\n2 info 0\n3 alloc %d\n4 alloc 1\n5 info 0\n6 total 0\n'; }
until_has() { until [ "$(wc -l <$1)" -ge 7 ]; do sleep 0.05; done; }
program proc </tmp/in >/tmp/out &
first=$!
exec 3>/tmp/in
say >&3
until_has /tmp/out
echo "first" $(cut -d' ' -f1 /tmp/out) free $(sed -n '3s/0 //p;6s/0 //p' /tmp/out) of $(sed -n '7s/0 //p' /tmp/out)
echo "with it" $(printf '1 retain 0\n' | program dlsym | tail -1)
kill -9 $first
wait $first
echo "killed $?"
(say; until [ -e /tmp/end ]; do sleep 0.2; done) | program dlsym >/tmp/again &
until_has /tmp/again
echo "again" $(cut -d' ' -f1 /tmp/again)
echo "share $MESOS_GPU_SHARE"
echo "gpushare $ALIYUN_COM_GPU_MEM_ASSIGNED $ALIYUN_COM_GPU_MEM_CONTAINER of $ALIYUN_COM_GPU_MEM_DEV at $ALIYUN_COM_GPU_MEM_IDX"
echo "hami $CUDA_DEVICE_MEMORY_LIMIT $CUDA_DEVICE_MEMORY_LIMIT_0 $CUDA_DEVICE_SM_LIMIT"
for f in /run/mesos-gpu/limits /run/mesos-gpu/libmesosgpu.so /etc/ld.so.preload; do
  (: >>$f) && echo "$f written"
  rm -f $f && echo "$f removed"
done
echo done
wait`, uint64(32)<<30, shareBytes-contextBytes)

// fillShareOutput returns the expected output of fillShareScript; 2 is
// CUDA_ERROR_OUT_OF_MEMORY.
func fillShareOutput(d gpu.Device, cores int) string {
	return fmt.Sprintf(`first 0 0 0 0 2 0 0 free %d 0 of %d
with it 2 0
killed 137
again 0 0 0 0 2 0 0
share %s %d %d
gpushare true 3 of %.0f at %d
hami 3072m 3072m %d
done
`, shareBytes-contextBytes, shareBytes, d.UUID, shareMiB, cores, float64(d.MemMiB)/1024, d.Minor, cores)
}

// killTaskProcesses kills every process of a task at once, as the kernel does when memory runs
// out.
func killTaskProcesses(t *testing.T, id string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, path := range list {
		env, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\x00"+string(env), "\x00MESOS_TASK_ID="+id+"\x00") {
			continue // it may have ended meanwhile
		}
		_ = exec.Command("kill", "-9", strings.Split(path, "/")[2]).Run() // it may have ended with the first process
		killed++
	}
	if killed == 0 {
		t.Errorf("found no process of task %s", id)
	}
}
