package translate

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

// The example definitions become jobs with the described properties.
func TestReadyDefinitions(t *testing.T) {
	unique := job.Constraint{Field: "hostname", Operator: job.Unique}
	large := job.Constraint{Field: "gpu_type", Operator: job.Like, Value: "V100|A100"}
	for name, want := range map[string]struct {
		containerizer job.Containerizer
		tasks, gpus   int
		constraint    job.Constraint
		ports         []int
		health        string
	}{
		"mesos-gpu-scheduler": {job.Mesos, 3, 0, unique, []int{0}, "/healthz"},
		"gpu-service-stock":   {job.Mesos, 2, 1, large, []int{0, 0, 0}, "/v2/health/live"},
		"gpu-service-docker":  {job.Docker, 2, 1, large, []int{8000, 8001, 8002}, "/v2/health/live"},
	} {
		text, err := os.ReadFile(filepath.Join("..", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		app, err := marathon.ParseApp(text, settings())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		spec, err := JobSpec(app, settings())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var ports []int
		for _, p := range spec.Ports {
			ports = append(ports, p.Container)
		}
		if spec.Containerizer != want.containerizer || spec.Tasks != want.tasks || spec.Request.GPUs != want.gpus ||
			!slices.Contains(spec.Constraints, want.constraint) ||
			!slices.Equal(ports, want.ports) || spec.HealthCheck.HTTP.Path != want.health {
			t.Errorf("%s: got %+v", name, spec)
		}
	}
	ready, err := filepath.Glob(filepath.Join("..", "*.json"))
	if err != nil || len(ready) != 3 {
		t.Errorf("marathon/ has %v (%v), and this test looks at 3", ready, err)
	}
}
