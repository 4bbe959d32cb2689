package usage

import (
	"time"

	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
)

// TaskMeans is the usage of a running task's GPUs in the last minute.
type TaskMeans struct {
	readmodel.GPUTask
	// Measured is the number of measured GPUs, at least 1.
	Measured int
	// Duty is their mean duty, from 0 to 1, DutyMax that of the busiest. MemUsedMiB is the mean
	// of their used memory, MemMiB the memory of the largest GPU.
	Duty, DutyMax, MemUsedMiB, MemMiB float64
}

// RecentMeans returns the means of all running tasks with measurements. It reads no file.
func (c *Collector) RecentMeans(now time.Time) (list []TaskMeans) {
	tasks, err := c.model.RunningGPUTasks(request.UsageQuery{})
	if err != nil {
		return nil
	}
	for i := range tasks {
		past := c.history.pastOf(tasks[i].ID, now.Add(-dutyWindow), now)
		if past == nil {
			continue
		}
		one := TaskMeans{GPUTask: tasks[i], MemMiB: c.history.memoryOf(tasks[i].ID)}
		mem := 0
		for _, d := range past.Devices {
			duty, known := meanOfKnown(d.Duty)
			if !known {
				continue
			}
			one.Duty, one.DutyMax, one.Measured = one.Duty+duty, max(one.DutyMax, duty), one.Measured+1
			if used, known := meanOfKnown(d.MemUsedMiB); known {
				one.MemUsedMiB, mem = one.MemUsedMiB+used, mem+1
			}
		}
		if one.Measured == 0 {
			continue
		}
		one.Duty /= float64(one.Measured)
		one.MemUsedMiB /= float64(max(mem, 1))
		list = append(list, one)
	}
	return list
}

// meanOfKnown returns the mean of the values that are not nil, false if there are none.
func meanOfKnown(values []*float64) (mean float64, known bool) {
	n := 0.0
	for _, v := range values {
		if v != nil {
			mean, n = mean+*v, n+1
		}
	}
	return mean / max(n, 1), n > 0
}

// memoryOf returns the memory of the largest GPU of a task, 0 if it is unknown.
func (s *historyStore) memoryOf(task string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.byTask[task]; one != nil {
		return one.memMiB
	}
	return 0
}
