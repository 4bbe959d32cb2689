package sched

import (
	"strconv"
	"strings"
	"unicode"

	"mesos-gpu/framework/sched/fit"
)

// gangPeer is where one task of a gang can be reached.
type gangPeer struct {
	host string
	port int
}

// String is host:port, an IPv6 address in brackets.
func (p gangPeer) String() string {
	host := p.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(p.port)
}

// gangPeers lists a gang's tasks in the order of their ranks; nil for a job
// that is no gang.
func (pl *planner) gangPeers(j *WaitingJob, spots []fit.Placement) []gangPeer {
	if !j.Spec.Gang {
		return nil
	}
	peers := make([]gangPeer, len(spots))
	for i := range spots {
		peers[i].host = pl.agents[spots[i].Agent].Hostname
		if len(spots[i].Ports) > 0 {
			peers[i].port = spots[i].Ports[0]
		}
	}
	return peers
}

// taskEnvironment is what the scheduler alone can tell a task: its host and ports,
// by the names Marathon gives them, and in a gang its rank and peers, by the names
// that torch.distributed reads
// (https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization).
func taskEnvironment(j *WaitingJob, index int, host string, ports []int, peers []gangPeer) map[string]string {
	if len(ports) == 0 && len(peers) == 0 {
		return nil
	}
	env := map[string]string{}
	text := make([]string, len(ports))
	for i, p := range ports {
		text[i] = strconv.Itoa(p)
		env["PORT"+strconv.Itoa(i)] = text[i]
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
	return env
}

// portVariableName reads PORT_ADMIN_UI for a port named admin-ui.
func portVariableName(name string) string {
	return "PORT_" + strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return unicode.ToUpper(r)
	}, name)
}
