package web_test

import (
	"hash/fnv"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

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

// clusterHistory returns 200 points over the last hours, with a daily rhythm.
func (f *fakeAPI) clusterHistory(text string) api.ClusterHistory {
	hours, _ := strconv.Atoi(text)
	const points = 200
	count := map[string]float64{}
	for _, g := range f.gpus {
		count[g.Type]++
	}
	v := api.ClusterHistory{Times: []int64{}, IntervalSeconds: hours * 3600 / points, WaitingGPUs: []float64{}, Types: []api.TypeHistory{}}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		v.Types = append(v.Types, api.TypeHistory{Type: kind})
	}
	now := time.Now().Unix()
	for i := range points {
		at := now - int64((points-1-i)*v.IntervalSeconds)
		v.Times = append(v.Times, at)
		v.WaitingGPUs = append(v.WaitingGPUs, math.Round(14+12*math.Sin(float64(at)/9000)))
		for k := range v.Types {
			one := &v.Types[k]
			all := count[one.Type]
			wave, _ := usageWave(one.Type, float64(at%86400)/300)
			duty := 0.35 + 0.5*wave
			one.GPUs, one.Held, one.Duty = append(one.GPUs, all), append(one.Held, math.Round(all*(0.3+0.6*wave))), append(one.Duty, &duty)
		}
	}
	return v
}

// newAccountingReport returns the GPU time of three roles in the last 30 days.
func newAccountingReport() api.AccountingReport {
	v := api.AccountingReport{By: []string{"day", "role"}}
	for i := range 30 {
		for k, role := range []string{"research", "prod", "*"} {
			wave, _ := usageWave(role, float64(i*17))
			seconds := math.Round(3600 * float64(24*(3-k)) * (0.4 + wave))
			sums := api.AccountingSums{
				Attempts: 9 - k, Unfinished: 1, GPUSeconds: seconds, UnfinishedGPUSeconds: seconds / 8, WaitSeconds: 900 * float64(k+1),
				Usage: api.MeasuredUsage{
					GPUSeconds:        seconds,
					BusyGPUSeconds:    seconds * wave * 0.9,
					MemMiBSeconds:     seconds * memMiB,
					MemUsedMiBSeconds: seconds * memMiB * 0.6,
					Joules:            seconds * 250,
				},
			}
			v.Groups = append(v.Groups, api.AccountingGroup{
				Keys:           map[string]string{"day": time.Now().AddDate(0, 0, i-29).Format(time.DateOnly), "role": role},
				AccountingSums: sums,
			})
			v.Total.Attempts += sums.Attempts
			v.Total.GPUSeconds += seconds
			v.Total.UnfinishedGPUSeconds += sums.UnfinishedGPUSeconds
			v.Total.WaitSeconds += sums.WaitSeconds
			v.Total.Usage.AddUsage(&sums.Usage, 1)
		}
	}
	return v
}

// newJobUsage returns the history of a job that has run for six hours.
func newJobUsage() api.JobUsageHistory {
	v := api.JobUsageHistory{MemMiB: memMiB, GPUHours: 12.4, IntervalSeconds: 120}
	for i := range 180 {
		duty, mem := usageWave("history", 930-5*float64(i))
		highest := math.Min(1, duty+0.1)
		v.Times = append(v.Times, time.Now().Unix()-int64(120*(180-i)))
		v.Duty, v.DutyMax, v.MemUsedMiB = append(v.Duty, &duty), append(v.DutyMax, &highest), append(v.MemUsedMiB, &mem)
	}
	return v
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
