package job

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// schedulerVariables returns the environment without the variables that every task has.
func schedulerVariables(s *Spec, a AttemptContext) map[string]string {
	env := s.TaskEnvironment(a)
	delete(env, "MESOS_GPU_RESTART_COUNT")
	return env
}

// A task gets its host ports by index, by number and by name. A name takes precedence over an equal number.
func TestPortVariables(t *testing.T) {
	s := &Spec{Container: Container{Ports: []Port{
		{Container: 80}, {Name: "admin-ui", Service: 8080}, {Host: 9090}, {Name: "80"}, {},
	}}}
	want := map[string]string{
		"HOST": "a1", "PORT": "31000", "PORTS": "31000,31001,9090,31003,31004",
		"PORT0": "31000", "PORT1": "31001", "PORT2": "9090", "PORT3": "31003", "PORT4": "31004",
		"PORT_80": "31003", "PORT_8080": "31001", "PORT_ADMIN_UI": "31001", "PORT_9090": "9090",
	}
	got := schedulerVariables(s, AttemptContext{Host: "a1", Ports: []int{31000, 31001, 9090, 31003, 31004}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if env := schedulerVariables(s, AttemptContext{Host: "a1"}); len(env) > 0 {
		t.Errorf("without ports and peers: %v", env)
	}
}

// Tasks of a gang get their rank and the addresses of all tasks. IPv6 addresses are in brackets.
func TestGangVariables(t *testing.T) {
	s := &Spec{Name: "train", Gang: true, Tasks: 3}
	want := map[string]string{
		"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "fd00::2", "MASTER_PORT": "31000", "MESOS_GPU_PEERS": "[fd00::2]:31000,a1:31002,a1:0",
		"HOST": "a1", "PORT": "31002", "PORTS": "31002", "PORT0": "31002",
		"NNODES": "3", "NODE_RANK": "1", "NPROC_PER_NODE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
		"PET_NNODES": "3", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "1", "PET_RDZV_ID": "train",
		"PET_MASTER_ADDR": "fd00::2", "PET_MASTER_PORT": "31000", "PET_RDZV_ENDPOINT": "[fd00::2]:31000",
	}
	peers := []GangPeer{{"fd00::2", 31000}, {"a1", 31002}, {"a1", 0}}
	got := schedulerVariables(s, AttemptContext{Index: 1, Host: "a1", Ports: []int{31002}, Peers: peers})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A task with several GPUs is a node with a process for each. The job's own variables and secrets replace those of
// launchers, but not the rank.
func TestLauncherVariables(t *testing.T) {
	s := &Spec{
		Name: "train", Gang: true, Tasks: 2, Request: gpu.Request{GPUs: 4},
		Env: map[string]string{"PET_NPROC_PER_NODE": "1", "NNODES": "9", "RANK": "7"}, Secrets: map[string]string{"PET_RDZV_ID": "a/secret"},
	}
	got := schedulerVariables(s, AttemptContext{Index: 1, Host: "b", Ports: []int{31001}, Peers: []GangPeer{{"a", 31000}, {"b", 31001}}})
	want := map[string]string{
		"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "31000", "MESOS_GPU_PEERS": "a:31000,b:31001",
		"HOST": "b", "PORT": "31001", "PORTS": "31001", "PORT0": "31001",
		"NNODES": "9", "NODE_RANK": "1", "NPROC_PER_NODE": "4", "PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "1",
		"PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "31000", "PET_RDZV_ENDPOINT": "a:31000",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.Env["RANK"] != "7" {
		t.Errorf("the job's variables have changed: %v", s.Env)
	}
}

// A port variable has capital letters, and underscores for dashes and dots.
func TestPortVariableName(t *testing.T) {
	if got := portVariableName("admin-ui.v1"); got != "PORT_ADMIN_UI_V1" {
		t.Errorf("got %s", got)
	}
}

// An attempt knows how many were before it, and where they kept their state.
func TestRestartVariables(t *testing.T) {
	s := Spec{CheckpointDir: "/data"}
	want := map[string]string{"MESOS_GPU_RESTART_COUNT": "2", "MESOS_GPU_CHECKPOINT_DIR": "/data/train@4/7"}
	if diff := cmp.Diff(want, s.TaskEnvironment(AttemptContext{Run: RunID{"train", 4}, Index: 7, Attempt: 3})); diff != "" {
		t.Error(diff)
	}
	s.CheckpointDir = ""
	if diff := cmp.Diff(map[string]string{"MESOS_GPU_RESTART_COUNT": "0"}, s.TaskEnvironment(AttemptContext{Run: RunID{"train", 4}})); diff != "" {
		t.Error(diff)
	}
}

// The values of a task's combination are variables, and replace their names in the job's. Ports and rank replace both.
func TestMatrixVariables(t *testing.T) {
	s := Spec{
		Matrix: &Matrix{Axes: []MatrixAxis{{"lr", []string{"0.1"}}, {"seed", []string{"1"}}}},
		Env:    map[string]string{"OUT": "/out/{{matrix.seed}}", "PLAIN": "x", "PORT0": "none"},
	}
	got := schedulerVariables(&s, AttemptContext{Values: map[string]string{"lr": "0.1", "seed": "$1 {{matrix.lr}}", "HOST": "none"}, Host: "a", Ports: []int{1}})
	want := map[string]string{
		"OUT": "/out/$1 {{matrix.lr}}", "PLAIN": "x", "lr": "0.1", "seed": "$1 {{matrix.lr}}", "HOST": "a", "PORT": "1", "PORTS": "1", "PORT0": "1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.Matrix = nil
	if got := s.TaskEnvironment(AttemptContext{}); got["OUT"] != "/out/{{matrix.seed}}" {
		t.Errorf("without a matrix: %v", got)
	}
}

// TestVariablesAreDocumented checks that the page of job files has each variable of the scheduler.
func TestVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "reference", "job-file.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Environment of a task\n")
	section, _, _ = strings.Cut(section, "\n## ")
	s := Spec{Name: "a", Gang: true, Tasks: 2, CheckpointDir: "/data", Container: Container{Ports: []Port{{Name: "name", Container: 8080}}}}
	env := s.TaskEnvironment(AttemptContext{Host: "a", Ports: []int{1, 2}, Peers: []GangPeer{{"a", 1}, {"b", 1}}})
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/reference/job-file.md lacks the variable %s", name)
		}
	}
}
