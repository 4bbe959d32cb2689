package jobfile

import (
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// volumes reads a list of "SOURCE:TARGET[:ro]" and of
// {source, target, read_only, driver}.
func volumes(n *yaml.Node, to *[]job.Volume) error {
	return each(n, `["/data:/data:ro"]`, func(item *yaml.Node) (err error) {
		var v job.Volume
		if item.Kind == yaml.ScalarNode {
			v, err = job.ParseVolume(item.Value)
		} else {
			err = fields(item, map[string]reader{
				"source":    func(n *yaml.Node) error { return text(n, &v.Source) },
				"target":    func(n *yaml.Node) error { return text(n, &v.Target) },
				"read_only": func(n *yaml.Node) error { return flag(n, &v.ReadOnly) },
				"driver":    func(n *yaml.Node) error { return text(n, &v.Driver) },
			})
		}
		*to = append(*to, v)
		return err
	})
}

// ports reads how many, or a list of the container's own: 8080, "9090/udp",
// "80:8080", {name, container, host, protocol}.
func ports(n *yaml.Node, to *[]job.Port) error {
	if n.Kind == yaml.ScalarNode {
		var number int
		if err := count(n, &number); err != nil {
			return fmt.Errorf("%w, nor a list such as [8080, 9090/udp]", err)
		}
		if number < 0 || number > job.MaxPorts {
			return fmt.Errorf("%d is not between 0 and %d: a container's own port stands in a list, as [8080]", number, job.MaxPorts)
		}
		*to = make([]job.Port, number)
		return nil
	}
	return each(n, "[8080, 9090/udp]", func(item *yaml.Node) (err error) {
		var p job.Port
		if item.Kind == yaml.ScalarNode {
			p, err = job.ParsePort(item.Value)
		} else {
			err = fields(item, map[string]reader{
				"name":      func(n *yaml.Node) error { return text(n, &p.Name) },
				"container": func(n *yaml.Node) error { return portNumber(n, &p.Container) },
				"host":      func(n *yaml.Node) error { return portNumber(n, &p.Host) },
				"protocol":  func(n *yaml.Node) error { return text(n, (*string)(&p.Protocol)) },
			})
		}
		*to = append(*to, p)
		return err
	})
}

func portNumber(n *yaml.Node, to *int) error {
	if err := count(n, to); err != nil {
		return err
	}
	if *to < 1 || *to > 65535 {
		return fmt.Errorf("%d is not between 1 and 65535", *to)
	}
	return nil
}

// ulimits reads {memlock: unlimited, stack: "8388608:16777216"}.
func ulimits(n *yaml.Node, to *[]job.Ulimit) error {
	var all map[string]string
	if err := pairs(n, &all); err != nil {
		return err
	}
	var errs []error
	for i := 0; i < len(n.Content); i += 2 { // in the file's order
		u, err := job.ParseUlimit(n.Content[i].Value, n.Content[i+1].Value)
		if err != nil {
			errs = append(errs, at(n.Content[i+1], "%w", err))
		}
		*to = append(*to, u)
	}
	return errors.Join(errs...)
}

// never is how people write that a health check ends no task.
const never = "never"

// healthChecks reads one, or a list of several.
func healthChecks(n *yaml.Node, to *job.Container) error {
	to.HealthCheck = &job.HealthCheck{}
	if n.Kind != yaml.SequenceNode {
		return healthCheck(n, to.HealthCheck)
	}
	if len(n.Content) == 0 {
		return errors.New("is an empty list: leave it out")
	}
	to.MoreHealthChecks = make([]job.HealthCheck, len(n.Content)-1)
	all := to.HealthChecks()
	return each(n, "[{http: /health}, {tcp: 9090}]", func(item *yaml.Node) error {
		first := all[0]
		all = all[1:]
		return healthCheck(item, first)
	})
}

func healthCheck(n *yaml.Node, h *job.HealthCheck) error {
	known := checkKeys(&h.Check)
	known["grace"] = func(n *yaml.Node) error { return someTime(n, &h.Grace) }
	known["failures"] = func(n *yaml.Node) error { return failures(n, &h.Failures) }
	return fields(n, known)
}

func check(n *yaml.Node, to **job.Check) error {
	*to = &job.Check{}
	return fields(n, checkKeys(*to))
}

func checkKeys(c *job.Check) map[string]reader {
	return map[string]reader{
		"command":  func(n *yaml.Node) error { return command(n, &c.Command) },
		"http":     func(n *yaml.Node) error { return httpCheck(n, &c.HTTP) },
		"tcp":      func(n *yaml.Node) error { return tcpCheck(n, &c.TCP) },
		"delay":    func(n *yaml.Node) error { return duration(n, &c.Delay) },
		"interval": func(n *yaml.Node) error { return someTime(n, &c.Interval) },
		"timeout":  func(n *yaml.Node) error { return someTime(n, &c.Timeout) },
	}
}

// httpCheck reads a path, on the job's first port, or keys.
func httpCheck(n *yaml.Node, to **job.HTTPCheck) error {
	h := &job.HTTPCheck{}
	*to = h
	if n.Kind == yaml.ScalarNode {
		return text(n, &h.Path)
	}
	known := checkPortKeys(n, &h.CheckPort)
	known["path"] = func(n *yaml.Node) error { return text(n, &h.Path) }
	known["tls"] = func(n *yaml.Node) error { return flag(n, &h.TLS) }
	return fields(n, known)
}

// tcpCheck reads a port's number, or keys.
func tcpCheck(n *yaml.Node, to **job.TCPCheck) error {
	t := &job.TCPCheck{}
	*to = t
	if n.Kind == yaml.ScalarNode {
		return portNumber(n, &t.Port)
	}
	return fields(n, checkPortKeys(n, &t.CheckPort))
}

func checkPortKeys(n *yaml.Node, to *job.CheckPort) map[string]reader {
	return map[string]reader{
		"port": func(n *yaml.Node) error { return portNumber(n, &to.Port) },
		"port_index": func(index *yaml.Node) error {
			if has(n, "port") {
				return errors.New("stands beside port: name one")
			}
			if err := count(index, &to.Index); err != nil {
				return err
			}
			if to.Index < 0 || to.Index >= job.MaxPorts {
				return fmt.Errorf("%d is not between 0 and %d", to.Index, job.MaxPorts-1)
			}
			return nil
		},
	}
}

func has(n *yaml.Node, key string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

func failures(n *yaml.Node, to *int) error {
	if n.Kind == yaml.ScalarNode && n.Value == never {
		*to = job.Unlimited
		return nil
	}
	if v, err := strconv.Atoi(n.Value); n.Kind != yaml.ScalarNode || err != nil || v < 1 {
		return fmt.Errorf("%q is neither a whole number above 0 nor %s", n.Value, never)
	}
	return count(n, to)
}
