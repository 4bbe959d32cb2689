package placement

import (
	"strconv"
	"strings"
	"unicode"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// deviceIDsOf returns the ids of all devices of a placement, whole and shared.
func deviceIDsOf(p *fit.Placement) []string {
	if p.Shares == nil {
		return p.DeviceIDs
	}
	ids := make([]string, len(p.Shares))
	for i := range p.Shares {
		ids[i] = p.Shares[i].UUID
	}
	return ids
}

// gangPeer is the address at which the other tasks of a gang reach a task.
type gangPeer struct {
	// port is the first host port of the task, 0 if it has none.
	host string
	port int
}

// String returns host:port, with an IPv6 address in brackets.
func (p gangPeer) String() string {
	host := p.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(p.port)
}

// gangPeers returns the addresses of a gang's tasks by rank, nil for a job that is no gang.
func gangPeers(j *queue.WaitingJob, agents []fit.AgentResources, places []fit.Placement) []gangPeer {
	if !j.Spec.Gang {
		return nil
	}
	peers := make([]gangPeer, len(places))
	for i := range places {
		peers[i].host = agents[places[i].Agent].Hostname
		if len(places[i].Ports) > 0 {
			peers[i].port = places[i].Ports[0]
		}
	}
	return peers
}

// taskEnvironment returns the variables that only the scheduler can set: host and ports under the names that Marathon
// uses, and for a gang rank and peers under the names that torch.distributed reads
// (https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization).
func taskEnvironment(j *queue.WaitingJob, index int, host string, ports []int, peers []gangPeer) map[string]string {
	if len(ports) == 0 && len(peers) == 0 {
		return nil
	}
	env := map[string]string{}
	text := make([]string, len(ports))
	for i, p := range ports {
		text[i] = strconv.Itoa(p)
		env["PORT"+strconv.Itoa(i)] = text[i]
		if i < len(j.Spec.Ports) && j.Spec.Ports[i].Number() > 0 {
			env[portVariableName(strconv.Itoa(j.Spec.Ports[i].Number()))] = text[i]
		}
	}
	for i := range ports { // a name takes precedence over an equal number
		if i < len(j.Spec.Ports) && j.Spec.Ports[i].Name != "" {
			env[portVariableName(j.Spec.Ports[i].Name)] = text[i]
		}
	}
	if len(ports) > 0 {
		env["HOST"], env["PORT"], env["PORTS"] = host, text[0], strings.Join(text, ",")
	}
	if len(peers) == 0 {
		return env
	}
	all := make([]string, len(peers))
	for i, p := range peers {
		all[i] = p.String()
	}
	env["RANK"], env["WORLD_SIZE"] = strconv.Itoa(index), strconv.Itoa(j.Spec.Tasks)
	env["MASTER_ADDR"], env["MASTER_PORT"] = peers[0].host, strconv.Itoa(peers[0].port)
	env["MESOS_GPU_PEERS"] = strings.Join(all, ",")
	for name, value := range launcherVariables(j.Spec, index, peers[0]) {
		_, set := j.Spec.Env[name]
		if _, secret := j.Spec.Secrets[name]; !set && !secret {
			env[name] = value
		}
	}
	return env
}

// launcherVariables returns what launchers of one process for each GPU read in a task of a gang. To them a task is a
// node. torchrun has a variable PET_NAME for each of its flags
// (https://docs.pytorch.org/docs/stable/elastic/run.html). Unlike the rank, the job's own variables replace them.
func launcherVariables(s *job.Spec, index int, master gangPeer) map[string]string {
	nodes, node, processes := strconv.Itoa(s.Tasks), strconv.Itoa(index), strconv.Itoa(max(s.Request.GPUs, 1))
	env := map[string]string{
		"NNODES": nodes, "NODE_RANK": node, "NPROC_PER_NODE": processes,
		"PET_NNODES": nodes, "PET_NODE_RANK": node, "PET_NPROC_PER_NODE": processes,
		"PET_MASTER_ADDR": master.host, "PET_MASTER_PORT": strconv.Itoa(master.port), "PET_RDZV_ENDPOINT": master.String(), "PET_RDZV_ID": s.Name,
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
