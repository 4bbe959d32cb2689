package job

import (
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"
	"unicode"
)

// AttemptContext contains the facts, besides the job, that determine the environment of an attempt.
type AttemptContext struct {
	Run RunID
	// Index is the number of the task in its job, Attempt that of its attempts, from 1.
	Index, Attempt int
	// Values is the task's combination of the job's matrix.
	Values map[string]string
	// Host is the agent's host name. Ports are the task's host ports.
	Host  string
	Ports []int
	// Peers are the addresses of a gang's tasks by index, nil for a job that is no gang.
	Peers []GangPeer
}

// GangPeer is the address at which the other tasks of a gang reach a task.
type GangPeer struct {
	// Port is the first host port of the task, 0 if it has none.
	Host string
	Port int
}

// String returns host:port, with an IPv6 address in brackets.
func (p GangPeer) String() string {
	host := p.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(p.Port)
}

// TaskEnvironment returns all variables that the scheduler sets for an attempt, those of the job included. Later ones have
// precedence. The executor adds what only the agent has: executor/task.TaskSpec.Environment. A new variable of the scheduler
// is added here, and to the table in docs/reference/job-file.md.
func (s *Spec) TaskEnvironment(a AttemptContext) map[string]string {
	env := map[string]string{}
	for name, text := range s.Env {
		if s.Matrix != nil {
			text = fillPlaceholders(text, a.Values)
		}
		env[name] = text
	}
	if s.Matrix != nil {
		maps.Copy(env, a.Values)
	}
	s.addPortVariables(env, &a)
	s.addGangVariables(env, &a)
	env["MESOS_GPU_RESTART_COUNT"] = strconv.Itoa(max(a.Attempt, 1) - 1)
	if s.CheckpointDir != "" {
		env["MESOS_GPU_CHECKPOINT_DIR"] = path.Join(s.CheckpointDir, a.Run.String(), fmt.Sprint(a.Index))
	}
	return env
}

// addPortVariables adds the host and the ports, under the names that Marathon uses.
func (s *Spec) addPortVariables(env map[string]string, a *AttemptContext) {
	if len(a.Ports) == 0 {
		return
	}
	text := make([]string, len(a.Ports))
	for i, p := range a.Ports {
		text[i] = strconv.Itoa(p)
		env["PORT"+strconv.Itoa(i)] = text[i]
		if i < len(s.Ports) && s.Ports[i].Number() > 0 {
			env[portVariableName(strconv.Itoa(s.Ports[i].Number()))] = text[i]
		}
	}
	for i := range a.Ports { // a name takes precedence over an equal number
		if i < len(s.Ports) && s.Ports[i].Name != "" {
			env[portVariableName(s.Ports[i].Name)] = text[i]
		}
	}
	env["HOST"], env["PORT"], env["PORTS"] = a.Host, text[0], strings.Join(text, ",")
}

// addGangVariables adds rank and peers, under the names that torch.distributed reads
// (https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization).
func (s *Spec) addGangVariables(env map[string]string, a *AttemptContext) {
	if len(a.Peers) == 0 {
		return
	}
	all := make([]string, len(a.Peers))
	for i, p := range a.Peers {
		all[i] = p.String()
	}
	env["RANK"], env["WORLD_SIZE"] = strconv.Itoa(a.Index), strconv.Itoa(s.Tasks)
	env["MASTER_ADDR"], env["MASTER_PORT"] = a.Peers[0].Host, strconv.Itoa(a.Peers[0].Port)
	env["MESOS_GPU_PEERS"] = strings.Join(all, ",")
	for name, value := range s.launcherVariables(a) {
		_, set := s.Env[name]
		if _, secret := s.Secrets[name]; !set && !secret {
			env[name] = value
		}
	}
}

// launcherVariables returns what launchers of one process for each GPU read in a task of a gang. To them a task is a
// node. torchrun has a variable PET_NAME for each of its flags
// (https://docs.pytorch.org/docs/stable/elastic/run.html). Unlike the rank, the job's own variables replace them.
func (s *Spec) launcherVariables(a *AttemptContext) map[string]string {
	nodes, node, processes := strconv.Itoa(s.Tasks), strconv.Itoa(a.Index), strconv.Itoa(max(s.Request.GPUs, 1))
	first := a.Peers[0]
	env := map[string]string{
		"NNODES":             nodes,
		"NODE_RANK":          node,
		"NPROC_PER_NODE":     processes,
		"PET_NNODES":         nodes,
		"PET_NODE_RANK":      node,
		"PET_NPROC_PER_NODE": processes,
		"PET_MASTER_ADDR":    first.Host,
		"PET_MASTER_PORT":    strconv.Itoa(first.Port),
		"PET_RDZV_ENDPOINT":  first.String(),
		"PET_RDZV_ID":        s.Name,
	}
	if s.Request.GPUs <= 1 { // the task is one process, which sees its own GPU alone
		env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"] = "0", "1"
	}
	return env
}

// portVariableName returns PORT_ADMIN_UI for a port named admin-ui.
func portVariableName(name string) string {
	return "PORT_" + strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return unicode.ToUpper(r)
	}, name)
}
