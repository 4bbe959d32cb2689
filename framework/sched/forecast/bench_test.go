package forecast

import (
	"fmt"
	"testing"
	"time"

	"mesos-gpu/job"
)

// BenchmarkStarts estimates the starts of a long queue on 1,000 agents, all of whose GPUs are in use.
func BenchmarkStarts(b *testing.B) {
	in := Input{}
	for a := range 1000 {
		in.Agents = append(in.Agents, Agent{Free: Resources{CPUs: 64_000, Memory: 1 << 30}})
		for n := range 4 {
			in.Running = append(in.Running, OccupyingTask{
				Agent: a, Holds: Resources{WholeGPUs: 2000, CPUs: 8000}, RunTime: exact(time.Duration(a*4+n+1) * 10 * time.Second),
			})
		}
	}
	for i := range maxWaiting {
		size := int64(1) << (i % 4)
		j := WaitingJob{
			Run: job.RunID{Name: fmt.Sprint(i)}, Role: fmt.Sprint("role", i%3), Tasks: 1, Needs: Resources{WholeGPUs: size * 1000, CPUs: size * 2000}, Accepts: onAll(1000),
			DemandKey: fmt.Sprint(size), RunTime: exact(time.Hour), Announced: time.Hour, HasPlace: true,
		}
		if i%50 == 0 {
			j.Tasks, j.Gang, j.DemandKey = 16, true, "gang"
		}
		in.Waiting = append(in.Waiting, j)
	}
	for b.Loop() {
		in.Starts()
	}
}
