package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
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

// Tasks of a gang get their rank and the addresses of all tasks. IPv6 addresses are in brackets.
func TestGangVariables(t *testing.T) {
	j := &queue.WaitingJob{Spec: &job.Spec{Name: "train", Gang: true, Tasks: 3}}
	agents := []fit.AgentResources{{Hostname: "a1"}, {Hostname: "fd00::2"}}
	peers := gangPeers(j, agents, []fit.Placement{{Agent: 1, Ports: []int{31000, 31001}}, {Agent: 0, Ports: []int{31002}}, {Agent: 0}})
	want := map[string]string{
		"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "fd00::2", "MASTER_PORT": "31000", "MESOS_GPU_PEERS": "[fd00::2]:31000,a1:31002,a1:0",
		"HOST": "a1", "PORT": "31002", "PORTS": "31002", "PORT0": "31002",
		"NNODES": "3", "NODE_RANK": "1", "NPROC_PER_NODE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
		"PET_NNODES": "3", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "1", "PET_RDZV_ID": "train",
		"PET_MASTER_ADDR": "fd00::2", "PET_MASTER_PORT": "31000", "PET_RDZV_ENDPOINT": "[fd00::2]:31000",
	}
	if diff := cmp.Diff(want, taskEnvironment(j, 1, "a1", []int{31002}, peers)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if peers := gangPeers(&queue.WaitingJob{Spec: &job.Spec{Tasks: 1}}, agents, []fit.Placement{{}}); peers != nil {
		t.Errorf("a job that is no gang has the peers %v", peers)
	}
	if env := taskEnvironment(j, 0, "a1", nil, nil); env != nil {
		t.Errorf("without ports and peers: %v", env)
	}
}

// A task with several GPUs is a node with a process for each. The job's own variables and secrets replace those of
// launchers, but not the rank.
func TestLauncherVariables(t *testing.T) {
	j := &queue.WaitingJob{Spec: &job.Spec{
		Name: "train", Gang: true, Tasks: 2, Request: gpu.Request{GPUs: 4},
		Env: map[string]string{"PET_NPROC_PER_NODE": "1", "NNODES": "9", "RANK": "7"}, Secrets: map[string]string{"PET_RDZV_ID": "a/secret"},
	}}
	got := taskEnvironment(j, 1, "b", []int{31001}, []gangPeer{{"a", 31000}, {"b", 31001}})
	want := map[string]string{
		"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "31000", "MESOS_GPU_PEERS": "a:31000,b:31001",
		"HOST": "b", "PORT": "31001", "PORTS": "31001", "PORT0": "31001",
		"NODE_RANK": "1", "NPROC_PER_NODE": "4", "PET_NNODES": "2", "PET_NODE_RANK": "1",
		"PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "31000", "PET_RDZV_ENDPOINT": "a:31000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A port variable has capital letters, and underscores for dashes and dots.
func TestPortVariableName(t *testing.T) {
	if got := portVariableName("admin-ui.v1"); got != "PORT_ADMIN_UI_V1" {
		t.Errorf("got %s", got)
	}
}
