package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// A task gets its host ports by index, by number and by name. A name takes precedence over an equal number.
func TestPortVariables(t *testing.T) {
	j := &queue.WaitingJob{Spec: &job.Spec{Container: job.Container{Ports: []job.Port{
		{Container: 80}, {Name: "admin-ui", Service: 8080}, {Host: 9090}, {Name: "80"}, {},
	}}}}
	want := map[string]string{
		"HOST": "a1", "PORT": "31000", "PORTS": "31000,31001,9090,31003,31004",
		"PORT0": "31000", "PORT1": "31001", "PORT2": "9090", "PORT3": "31003", "PORT4": "31004",
		"PORT_80": "31003", "PORT_8080": "31001", "PORT_ADMIN_UI": "31001", "PORT_9090": "9090",
	}
	if diff := cmp.Diff(want, taskEnvironment(j, 0, "a1", []int{31000, 31001, 9090, 31003, 31004}, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
