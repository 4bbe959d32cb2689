package job

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// ConnectAddresses returns the addresses, each HOST:PORT, at which a running task may accept connections to one of its
// ports, as seen from its executor: the agent's loopback and own addresses, or in a CNI network those of the container.
// The first is the most likely one. port is the name, the number in the container or the host port of one of the job's
// ports, its place in the list of ports from 0, as in the variable PORT0, or "" for the first. In a CNI network, which the
// task shares with no other, any other number is a port too.
func (s *Spec) ConnectAddresses(t *Task, port string) ([]string, error) {
	i, err := s.findPort(t, port)
	number, _ := strconv.Atoi(port)
	switch {
	case err != nil && (s.CNINetwork() == "" || number < 1 || number > 65535):
		return nil, err
	case err == nil && s.Ports[i].Protocol == UDP:
		return nil, fmt.Errorf("port %s of job %s is a UDP port: only TCP is forwarded", strconv.Quote(port), s.Name)
	case err == nil && s.CNINetwork() != "":
		number = cmp.Or(s.Ports[i].Container, t.Ports[i])
	case err == nil:
		number = t.Ports[i]
	}
	hosts := []string{"127.0.0.1", "[::1]"}
	if s.CNINetwork() != "" {
		hosts = append(hosts, t.Addresses...)
	} else if agent, err := url.Parse(t.AgentURL); err == nil && agent.Hostname() != "" {
		hosts = append(hosts, agent.Hostname())
	}
	for i, host := range hosts {
		if strings.Contains(host, ":") && host[0] != '[' {
			host = "[" + host + "]"
		}
		hosts[i] = host + ":" + strconv.Itoa(number)
	}
	return hosts, nil
}

// findPort returns the index of a port of the job that the task has.
func (s *Spec) findPort(t *Task, port string) (int, error) {
	n := min(len(s.Ports), len(t.Ports))
	if n == 0 {
		return 0, fmt.Errorf("job %s has no ports: give it some by ports: 1 or --ports 1", s.Name)
	}
	if port == "" {
		return 0, nil
	}
	number, notNumber := strconv.Atoi(port)
	for _, match := range []func(i int) bool{
		func(i int) bool { return s.Ports[i].Name == port },
		func(i int) bool { return number > 0 && s.Ports[i].Number() == number },
		func(i int) bool { return number > 0 && t.Ports[i] == number },
		func(i int) bool { return notNumber == nil && i == number },
	} {
		for i := range n {
			if match(i) {
				return i, nil
			}
		}
	}
	names := make([]string, n)
	for i := range names {
		names[i] = strconv.Itoa(t.Ports[i])
		if name := s.Ports[i].Name; name != "" {
			names[i] = fmt.Sprintf("%s (%d)", name, t.Ports[i])
		}
	}
	return 0, fmt.Errorf("task %s has no port %q: it has %s", t.ID, port, strings.Join(names, ", "))
}
