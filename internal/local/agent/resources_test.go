package agent

import (
	"mesos-gpu/internal/minimesos/resource"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mesostime "github.com/mesos/mesos-go/api/v1/lib/time"
)

func TestCountDevicesAndLimits(t *testing.T) {
	// Reserved and unreserved parts of one resource are separate entries.
	all := []mesos.Resource{
		resource.NewScalar("gpus", 1), gpuIDs("GPU-b"), resource.NewScalar("mem", 32), resource.NewScalar("cpus", 0.5),
		resource.NewScalar("gpus", 1), gpuIDs("GPU-a"), resource.NewScalar("mem", 0.5),
	}
	gpus, ids, err := countDevices(all)
	if err != nil || gpus != 2 || strings.Join(ids, " ") != "GPU-b GPU-a" {
		t.Errorf("devices: %d %v %v", gpus, ids, err)
	}
	if keyOf(gpus, ids) != keyOf(2, []string{"GPU-a", "GPU-b"}) || keyOf(gpus, ids) == keyOf(2, []string{"GPU-a", "GPU-c"}) {
		t.Error("grants must differ by their devices, not by the order of these")
	}
	if l := cgroupLimits(all); l.CPUs != 0.5 || l.MemBytes != 32<<20+1<<19 {
		t.Errorf("limits %+v", l)
	}
	for _, n := range []float64{0.5, -1} {
		if _, _, err := countDevices([]mesos.Resource{resource.NewScalar("gpus", n)}); err == nil {
			t.Errorf("gpus:%v passed", n)
		}
	}
}

// Executors parse a formatted duration to the same value.
func TestDuration(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Millisecond, 1500 * time.Millisecond, 5 * time.Second, 90 * time.Second, 15 * time.Minute, 3 * time.Hour} {
		if got, err := mesostime.ParseDuration(formatDuration(d)); err != nil || got != d {
			t.Errorf("%v is written %s, read as %v, %v", d, formatDuration(d), got, err)
		}
	}
}

func TestContainerIDs(t *testing.T) {
	id := below(below(mesos.ContainerID{Value: "top"}, "mid"), "leaf")
	ids, err := containerPath(id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"top", "mid", "leaf"}, ids); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(id, containerID(ids)); diff != "" {
		t.Errorf("there and back (-want +got):\n%s", diff)
	}
	if got := nestedFolder(ids); got != "containers/mid/containers/leaf" {
		t.Errorf("folder %s", got)
	}
	for range maxDepth {
		id = below(id, "deeper")
	}
	for _, bad := range []mesos.ContainerID{id, {}, {Value: ".."}, {Value: "a b"}, {Value: strings.Repeat("x", 300)}} {
		if _, err := containerPath(bad); err == nil {
			t.Errorf("container id %.40v passed", bad)
		}
	}
}
