// Package proxyconfig writes configuration of load balancers for the services of a scheduler:
// for HAProxy, and for Traefik's file provider. It is a function of the jobs that the
// scheduler's API lists, and performs no I/O.
package proxyconfig

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// Endpoint is one TCP port of a service and the tasks that serve it.
type Endpoint struct {
	// Name is unique among the endpoints: the job's name, followed by the port's name or
	// index unless it is the first port.
	Name string
	Job  string
	// First is true for the job's first port.
	First bool
	// HTTP is true if a health check or the port's name shows that the port serves HTTP.
	HTTP bool
	// ServicePort is the number at which clients expect the service, 0 if the job sets none.
	ServicePort int
	// Servers are the tasks to which requests may be sent, by index.
	Servers []Server
}

// Server is a task's port.
type Server struct{ Name, Address string }

// safeHost matches names and IP addresses of agents that need no quotes in any format.
var safeHost = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:_-]*$`)

// ListEndpoints returns the TCP ports of the services among the jobs, by name. Tasks that do
// not run, fail their health checks or are to be ended are left out, so that their requests go
// to others before they end.
func ListEndpoints(jobs []api.JobView) []Endpoint {
	var list []Endpoint
	for i := range jobs {
		j := &jobs[i]
		if j.Spec.Service == nil || j.Terminal {
			continue
		}
		for at, port := range j.Spec.Ports {
			if port.Protocol != job.UDP {
				list = append(list, newEndpoint(j, at, port))
			}
		}
	}
	slices.SortFunc(list, func(a, b Endpoint) int { return cmp.Compare(a.Name, b.Name) })
	return uniqueNames(list)
}

func newEndpoint(j *api.JobView, at int, port job.Port) Endpoint {
	e := Endpoint{
		Name:        j.Spec.Name,
		Job:         j.Spec.Name,
		First:       at == 0,
		ServicePort: port.Service,
		HTTP:        strings.HasPrefix(port.Name, "http") && port.Name != "https",
	}
	if at > 0 {
		e.Name += "-" + safeName(cmp.Or(port.Name, strconv.Itoa(at)))
	}
	for _, check := range j.Spec.HealthChecks() {
		if h := check.HTTP; h != nil && !h.TLS && h.Port == 0 && h.Index == at {
			e.HTTP = true
		}
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.State != job.Running || !t.KillRequested.IsZero() || at >= len(t.Ports) || j.Spec.HealthCheck != nil && (t.Healthy == nil || !*t.Healthy) {
			continue
		}
		if host := agentHost(t); safeHost.MatchString(host) {
			e.Servers = append(e.Servers, Server{Name: fmt.Sprintf("%s.%d", j.Spec.Name, t.Index), Address: net.JoinHostPort(host, strconv.Itoa(t.Ports[at]))})
		}
	}
	return e
}

// agentHost returns the address at which the task's host ports are reached.
func agentHost(t *job.Task) string {
	if agent, err := url.Parse(t.AgentURL); err == nil && agent.Hostname() != "" {
		return agent.Hostname()
	}
	return t.Hostname
}

// safeName replaces all characters that are not letters, digits, dots, dashes or underscores.
func safeName(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && (r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '_'
	}, text)
}

// uniqueNames appends numbers to names that occur twice in the sorted list.
func uniqueNames(list []Endpoint) []Endpoint {
	used := map[string]bool{}
	for i := range list {
		name := list[i].Name
		for n := 2; used[list[i].Name]; n++ {
			list[i].Name = fmt.Sprintf("%s-%d", name, n)
		}
		used[list[i].Name] = true
	}
	return list
}
