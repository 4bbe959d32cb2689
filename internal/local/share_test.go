package local

import (
	"context"
	"fmt"
	"os"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/advertisetest"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/simulated"
)

// preloadSharing is a limiter that sets a variable in each container.
type preloadSharing struct{ share.NoLimiter }

func (preloadSharing) Method() gpu.EnforcementMethod { return gpu.EnforcedByPreload }

func (preloadSharing) AdmitContainer(_ context.Context, _ string, parts []gpu.DeviceShare) (share.LimitSetup, error) {
	if parts[0].MemMiB == 13 {
		return share.LimitSetup{}, fmt.Errorf("%d MiB cannot be held", parts[0].MemMiB)
	}
	return share.LimitSetup{Environment: map[string]string{"HELD": fmt.Sprint(parts[0].MemMiB)}}, nil
}

// Two tasks share one device, each with its own limit, and can open it. A third
// task has no room until one of them ends. A task that cannot be limited does
// not start. A task that has all of the device is not limited.
func TestTasksShareADevice(t *testing.T) {
	host, err := simulated.NewHost("2xV100", "share")
	if err != nil {
		t.Fatal(err)
	}
	at := startCluster(t, ClusterConfig{
		Hosts: []gpu.Host{host}, Share: "0",
		NewLimiters: func(string) ([]share.Limiter, error) { return []share.Limiter{preloadSharing{}}, nil },
	})
	shared, whole := host.Devices[0], host.Devices[1]
	part := func(mem int64, cores int) gpu.DeviceShare {
		return gpu.DeviceShare{UUID: shared.UUID, MemMiB: mem, Cores: cores}
	}
	half := part(shared.MemMiB/2, 30)
	check := fmt.Sprintf(`test "$HELD" = %d && test "$CUDA_DEVICE_MEMORY_LIMIT" = %dm || exit 1`, half.MemMiB, half.MemMiB)
	if os.Geteuid() == 0 { // a simulated node has no driver behind it, and can be opened so far
		check += fmt.Sprintf(`
case "$( { : < /dev/nvidia%d; } 2>&1 )" in *"No such device"*) ;; *) exit 2;; esac
case "$( { : < /dev/nvidia%d; } 2>&1 )" in *"not permitted"*) ;; *) exit 3;; esac`, shared.Minor, whole.Minor)
	}
	command := check + "\nexec sleep 1000"

	f := advertisetest.Subscribe(t, at.Master, "live")
	f.ExpectOffer("the other device is whole", 1, whole.UUID)
	f.LaunchShare(f.AwaitShare("at first", part(shared.MemMiB, 100)), "one", command, half)
	f.LaunchShare(f.AwaitShare("one taken", part(shared.MemMiB-half.MemMiB, 70)), "two", command, half)
	f.ExpectShare("both taken", part(shared.MemMiB-2*half.MemMiB, 40))
	f.ExpectRunning("with the other", "one")
	f.ExpectRunning("with the other", "two")
	f.KillTask("one")
	o := f.AwaitShare("one ended", part(shared.MemMiB-half.MemMiB, 70))
	f.TryShare(o, "unlucky", command, part(13, 0))
	f.AwaitState("unlucky", mesos.TASK_FAILED)
	f.LaunchShare(f.AwaitShare("the unlucky failed", part(shared.MemMiB-half.MemMiB, 70)), "three", command, half)
	f.ExpectShare("the third waited", part(shared.MemMiB-2*half.MemMiB, 40))
	f.KillTask("two")
	f.KillTask("three")
	all := part(shared.MemMiB, 100)
	f.TryShare(f.AwaitShare("nothing taken", all), "alone", `test -z "$HELD"`, all)
	f.AwaitState("alone", mesos.TASK_FINISHED)
	f.ExpectShare("nothing taken again", all)
}
