package web_test

import (
	"hash/fnv"
	"math"
	"net/url"
	"strconv"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// usage returns simulated GPU usage of the running tasks: each has its own periodic duty, and
// its memory use grows at the start.
func (f *fakeAPI) usage(v url.Values) api.UsageList {
	list := api.UsageList{Tasks: []api.TaskUsage{}}
	for i := range f.jobs {
		for _, t := range f.jobs[i].Tasks {
			if t.State != job.Running || !matchesQuery(v, "job", t.Job) || !matchesQuery(v, "task", t.ID) || !matchesQuery(v, "agent", t.AgentID) {
				continue
			}
			u := newTaskUsage(&t)
			if v.Get("minutes") == strconv.Itoa(api.MaxUsageMinutes) {
				u.History = newUsageHistory(u.Devices)
			}
			if odd := f.usageOverrides[t.ID]; odd != nil {
				odd(&u)
			}
			list.Tasks = append(list.Tasks, u)
		}
	}
	return list
}

// matchesQuery reports whether the parameter has this value or is not set.
func matchesQuery(v url.Values, key, value string) bool {
	return v.Get(key) == "" || v.Get(key) == value
}

const memMiB = 81920

func newTaskUsage(t *job.Task) api.TaskUsage {
	age := 2.
	u := api.TaskUsage{Task: t.ID, Job: t.Job, Index: t.Index, Hostname: t.Hostname, AgeSeconds: &age}
	for _, id := range t.DeviceIDs {
		duty, mem := usageWave(id, 0)
		watts, celsius, all := 60+250*duty, 35+40*duty, float64(memMiB)
		u.Devices = append(u.Devices, gpu.DeviceUsage{UUID: id, Duty: &duty, MemUsedMiB: &mem, MemMiB: &all, Watts: &watts, Celsius: &celsius, Health: gpu.Healthy})
	}
	return u
}

// newUsageHistory returns a value every 15 s for the last 15 minutes.
func newUsageHistory(devices []gpu.DeviceUsage) *api.UsageHistory {
	p := &api.UsageHistory{}
	for age := 897.; age > 0; age -= 15 {
		p.AgesSeconds = append(p.AgesSeconds, age)
	}
	for _, d := range devices {
		one := api.DeviceHistory{UUID: d.UUID}
		for _, age := range p.AgesSeconds {
			duty, mem := usageWave(d.UUID, age)
			one.Duty, one.MemUsedMiB = append(one.Duty, &duty), append(one.MemUsedMiB, &mem)
		}
		p.Devices = append(p.Devices, one)
	}
	return p
}

func usageWave(id string, age float64) (duty, mem float64) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	phase := float64(h.Sum32() % 628)
	duty = math.Min(1, 0.72+0.3*math.Sin(age/40+phase)+0.12*math.Sin(age*7+phase))
	return duty, memMiB * math.Min(0.76, (930-age)/500)
}
