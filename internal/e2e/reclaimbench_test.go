package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	mesosgo "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/resources"

	"mesos-gpu/framework"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/job"
)

// BenchmarkReclaimOnCluster reclaims GPUs on an embedded master with 500 agents of eight GPUs, all of which another role
// borrows: from the submission until the claiming role holds all of them. The agents start and end tasks immediately, so
// grace periods and the work of real agents are not measured.
func BenchmarkReclaimOnCluster(b *testing.B) {
	const agents, gpusEach = 500, 8
	for _, c := range []struct {
		name              string
		jobs, tasks, gpus int
		gang              bool
	}{
		{"gang of 250 tasks with 8 GPUs", 1, 250, 8, true},
		{"4000 tasks with 1 GPU", 1, 4000, 1, false},
		{"4000 jobs with 1 GPU", 4000, 1, 1, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				roles := filepath.Join(b.TempDir(), "roles.yaml")
				deserved := fmt.Sprintf("guests: {weight: 1}\nprod: {deserved: \"V100=%d\"}\n", c.jobs*c.tasks*c.gpus)
				if err := os.WriteFile(roles, []byte(deserved), 0o600); err != nil {
					b.Fatal(err)
				}
				address, stop := startOnInstantAgents(b,
					func(m *master.EmbeddedMaster) { registerGPUAgents(b, m, agents, gpusEach) },
					framework.SchedulerConfig{RolesFile: roles, Log: newSilentLogger()})
				api, err := client.New(address)
				if err != nil {
					b.Fatal(err)
				}
				submit(b, api, gpuJob("fill", "guests", agents*gpusEach, 1))
				awaitRunning(b, api, "guests", agents*gpusEach)
				b.StartTimer()
				for i := range c.jobs {
					spec := gpuJob(fmt.Sprintf("claim-%d", i), "prod", c.tasks, c.gpus)
					spec.Gang = c.gang
					submit(b, api, spec)
				}
				awaitRunning(b, api, "prod", c.jobs*c.tasks*c.gpus)
				b.StopTimer()
				stop()
				b.StartTimer()
			}
		})
	}
}

func gpuJob(name, role string, tasks, gpus int) job.Spec {
	s := job.Spec{Name: name, Role: role, Tasks: tasks, Request: gpu.Request{GPUs: gpus}, CPUs: 0.1, MemMiB: 32, Command: []string{"sleep", "1000"}}
	s.Preemptible = role == "guests"
	return s
}

func submit(b *testing.B, api *client.Client, spec job.Spec) {
	b.Helper()
	if _, err := api.SubmitJob(context.Background(), spec); err != nil {
		b.Fatal(err)
	}
}

// awaitRunning waits until the tasks of a role hold a number of GPUs. After some minutes it fails with what waits.
func awaitRunning(b *testing.B, api *client.Client, role string, gpus int) {
	b.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		roles, err := api.ListRoles(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		for i := range roles {
			if roles[i].Name == role && roles[i].Allocated["*"] == float64(gpus) {
				return
			}
		}
		if time.Since(began) > 4*time.Minute {
			waiting, err := api.ListQueue(context.Background())
			b.Fatalf("role %s does not hold %d GPUs: roles %+v; %d jobs wait, the first %+v; %v", role, gpus, roles, len(waiting), waiting[:min(len(waiting), 1)], err)
		}
	}
}

func registerGPUAgents(b *testing.B, m *master.EmbeddedMaster, agents, gpus int) {
	b.Helper()
	for i := range agents {
		a := &instantAgent{master: m, launched: func() {}}
		var err error
		a.id, err = m.Register(mesosgo.AgentInfo{
			Hostname:   fmt.Sprintf("10.0.%d.%d", i/250, i%250),
			Attributes: []mesosgo.Attribute{{Name: "gpu_type", Type: mesosgo.TEXT, Text: &mesosgo.Value_Text{Value: "V100"}}},
		}, []mesosgo.Resource{
			resources.NewCPUs(64).Resource, resources.NewMemory(1 << 18).Resource, resources.NewGPUs(uint(gpus)).Resource,
			resources.Build().Name(resources.NamePorts).Ranges(resources.BuildRanges().Span(31000, 32000).Ranges).Resource, // of gangs
		}, nil, a)
		if err != nil {
			b.Fatal(err)
		}
	}
}
