package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/readmodel"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// deviceUsage returns a device's usage; a negative value is unknown.
func deviceUsage(uuid string, duty, mem float64) gpu.DeviceUsage {
	d := gpu.DeviceUsage{UUID: uuid}
	if duty >= 0 {
		d.Duty = &duty
	}
	if mem >= 0 {
		d.MemUsedMiB = &mem
	}
	return d
}

// TestUsageHistoryIsBounded: stored samples have a minimum distance, are not stale, have no
// more devices than the task has GPUs, and are dropped after the history's length.
func TestUsageHistoryIsBounded(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	u := &readmodel.GPUTask{Task: job.Task{ID: "train.0"}, GPUs: 1}
	var p historyStore
	say := func(second float64, fresh bool, devices ...gpu.DeviceUsage) {
		at := began.Add(time.Duration(second * float64(time.Second)))
		measured := at
		if !fresh {
			measured = at.Add(-maxSampleAge - time.Second)
		}
		p.addSample(u, usageSample{at, gpu.TaskUsage{Time: measured, Devices: devices}, nil})
	}
	wants := func(what string, minutes int, second float64, want string) {
		t.Helper()
		now := began.Add(time.Duration(second * float64(time.Second)))
		text, err := json.Marshal(p.pastOf("train.0", now.Add(-time.Duration(minutes)*time.Minute), now))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	wants("nothing was told", 15, 0, `null`)
	say(0, true, deviceUsage("GPU-a", 0.33349, 1024.6))
	say(5, true, deviceUsage("GPU-a", 1, 2048)) // caused by a client's request
	say(15, true, deviceUsage("GPU-a", -1, 4096), deviceUsage("GPU-made-up", 1, 1))
	say(30, false, deviceUsage("GPU-a", 1, 1))
	p.addSample(u, usageSample{began.Add(45 * time.Second), gpu.TaskUsage{}, errors.New("the agent is gone")})
	say(60, true, deviceUsage("GPU-a", 0, -1))
	wants("a minute", 15, 61, `{"ages_seconds":[61,46,1],"devices":[{"uuid":"GPU-a","duty":[0.333,null,0],"mem_used_mib":[1025,4096,null]}]}`)
	wants("the last minute", 1, 70, `{"ages_seconds":[55,10],"devices":[{"uuid":"GPU-a","duty":[null,0],"mem_used_mib":[4096,null]}]}`)
	say(75, true, deviceUsage("GPU-other", 0.5, 1))
	wants("another device", 15, 75, `{"ages_seconds":[0],"devices":[{"uuid":"GPU-other","duty":[0.5],"mem_used_mib":[1]}]}`)
	for i := range 1000 {
		say(90+15*float64(i), true, deviceUsage("GPU-other", 0.5, float64(i)))
	}
	one := p.pastOf("train.0", began, began.Add((90+15*1000)*time.Second))
	if n := len(one.AgesSeconds); n < 59 || n > maxSamplesPerTask || one.AgesSeconds[0] > historyLength.Seconds()+15 || *one.Devices[0].MemUsedMiB[n-1] != 999 {
		t.Errorf("%d values, the oldest of %g s ago, the newest %g; want 59 to %d, %s and 999", n, one.AgesSeconds[0],
			*one.Devices[0].MemUsedMiB[n-1], maxSamplesPerTask, historyLength)
	}
	for i := range 1000 {
		say(1e6+minSampleDistance.Seconds()*float64(i), true, deviceUsage("GPU-other", 0.5, 1))
	}
	if n, most := len(p.byTask["train.0"].times), cap(p.byTask["train.0"].values); n != maxSamplesPerTask || most > 2*maxSamplesPerTask {
		t.Errorf("%d values in room for %d, want %d and %d at most", n, most, maxSamplesPerTask, 2*maxSamplesPerTask)
	}
	p.dropEndedTasks(nil)
	wants("it has ended", 15, 1e6, `null`)
}

// BenchmarkUsageHistory measures the memory of a full history of 8,000 tasks with one GPU each, or
// of 1,000 with 8.
func BenchmarkUsageHistory(b *testing.B) {
	for _, gpus := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d-gpus", gpus), func(b *testing.B) {
			users := make([]readmodel.GPUTask, 8000/gpus)
			for i := range users {
				users[i] = readmodel.GPUTask{Task: job.Task{ID: fmt.Sprintf("train-%06d.0.1.c8dbz5x2q6a5", i)}, GPUs: gpus}
			}
			for b.Loop() {
				var p historyStore
				before := heapBytes()
				for n := range 2 * maxSamplesPerTask {
					at := time.Unix(int64(n)*int64(minSampleDistance/time.Second), 0)
					for i := range users {
						p.addSample(&users[i], usageSample{at, gpu.TaskUsage{Time: at, Devices: namedDevices(gpus, i)}, nil})
					}
				}
				b.ReportMetric(float64(heapBytes()-before)/(1<<20), "MiB/8000-GPUs")
				runtime.KeepAlive(&p)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func namedDevices(gpus, task int) []gpu.DeviceUsage {
	list := make([]gpu.DeviceUsage, gpus)
	for d := range list {
		list[d] = deviceUsage(fmt.Sprintf("GPU-5a1c7d3e-0000-4000-%04d-%012d", d, task), 0.5, 40960)
	}
	return list
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// AverageDuty averages the devices and the samples of the last minute, without unknown values.
func TestAverageDuty(t *testing.T) {
	c := &Collector{}
	task := &readmodel.GPUTask{Task: job.Task{ID: "t"}, GPUs: 2}
	if _, ok := c.AverageDuty("t"); ok {
		t.Error("a task without samples has a utilization")
	}
	sample := func(ago time.Duration, duties ...float64) {
		u := usageSample{at: time.Now().Add(-ago)}
		u.usage.Time = u.at
		for i, duty := range duties {
			d := gpu.DeviceUsage{UUID: fmt.Sprint("GPU-", i)}
			if duty >= 0 {
				d.Duty = &duty
			}
			u.usage.Devices = append(u.usage.Devices, d)
		}
		c.history.addSample(task, u)
	}
	sample(3*time.Minute, 1, 1)
	sample(45*time.Second, 0.25, -1)
	sample(20*time.Second, 0.5, 0.75)
	if got, ok := c.AverageDuty("t"); !ok || got != 0.5 {
		t.Errorf("got %g, %t, want 0.5", got, ok)
	}
	if _, ok := c.AverageDuty("other"); ok {
		t.Error("another task has a utilization")
	}
}
