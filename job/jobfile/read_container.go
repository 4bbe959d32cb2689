package jobfile

import (
	"errors"
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// readVolumes reads a list of "SOURCE:TARGET[:ro]" and of
// {source, target, read_only, driver}.
func readVolumes(n *yaml.Node, to *[]job.Volume) error {
	return readEach(n, `["/data:/data:ro"]`, func(item *yaml.Node) (err error) {
		var v job.Volume
		if item.Kind == yaml.ScalarNode {
			v, err = job.ParseVolume(item.Value)
		} else {
			err = readFields(item, map[string]valueReader{
				"source":    func(n *yaml.Node) error { return readText(n, &v.Source) },
				"target":    func(n *yaml.Node) error { return readText(n, &v.Target) },
				"read_only": func(n *yaml.Node) error { return readFlag(n, &v.ReadOnly) },
				"driver":    func(n *yaml.Node) error { return readText(n, &v.Driver) },
			})
		}
		*to = append(*to, v)
		return err
	})
}

// readPorts reads how many, or a list of the container's own: 8080, "9090/udp",
// "80:8080", {name, container, host, protocol}.
func readPorts(n *yaml.Node, to *[]job.Port) error {
	if n.Kind == yaml.ScalarNode {
		var number int
		if err := readCount(n, &number); err != nil {
			return fmt.Errorf("%w, nor a list such as [8080, 9090/udp]", err)
		}
		if number < 0 || number > job.MaxPorts {
			return fmt.Errorf("%d is not between 0 and %d: a container's own port stands in a list, as [8080]", number, job.MaxPorts)
		}
		*to = make([]job.Port, number)
		return nil
	}
	return readEach(n, "[8080, 9090/udp]", func(item *yaml.Node) (err error) {
		var p job.Port
		if item.Kind == yaml.ScalarNode {
			p, err = job.ParsePort(item.Value)
		} else {
			err = readFields(item, map[string]valueReader{
				"name":      func(n *yaml.Node) error { return readText(n, &p.Name) },
				"container": func(n *yaml.Node) error { return readPortNumber(n, &p.Container) },
				"host":      func(n *yaml.Node) error { return readPortNumber(n, &p.Host) },
				"protocol":  func(n *yaml.Node) error { return readText(n, (*string)(&p.Protocol)) },
			})
		}
		*to = append(*to, p)
		return err
	})
}

func readPortNumber(n *yaml.Node, to *int) error {
	if err := readCount(n, to); err != nil {
		return err
	}
	if *to < 1 || *to > 65535 {
		return fmt.Errorf("%d is not between 1 and 65535", *to)
	}
	return nil
}

// readUlimits reads {memlock: unlimited, stack: "8388608:16777216"}.
func readUlimits(n *yaml.Node, to *[]job.Ulimit) error {
	var all map[string]string
	if err := readPairs(n, &all); err != nil {
		return err
	}
	var errs []error
	for i := 0; i < len(n.Content); i += 2 { // in the file's order
		u, err := job.ParseUlimit(n.Content[i].Value, n.Content[i+1].Value)
		if err != nil {
			errs = append(errs, errorAt(n.Content[i+1], "%w", err))
		}
		*to = append(*to, u)
	}
	return errors.Join(errs...)
}

// neverText is how people write that a health check ends no task.
const neverText = "never"

// readHealthChecks reads one, or a list of several.
func readHealthChecks(n *yaml.Node, to *job.Container) error {
	to.HealthCheck = &job.HealthCheck{}
	if n.Kind != yaml.SequenceNode {
		return readHealthCheck(n, to.HealthCheck)
	}
	if len(n.Content) == 0 {
		return errors.New("is an empty list: leave it out")
	}
	to.MoreHealthChecks = make([]job.HealthCheck, len(n.Content)-1)
	all := to.HealthChecks()
	return readEach(n, "[{http: /health}, {tcp: 9090}]", func(item *yaml.Node) error {
		first := all[0]
		all = all[1:]
		return readHealthCheck(item, first)
	})
}

func readHealthCheck(n *yaml.Node, h *job.HealthCheck) error {
	known := checkReaders(&h.Check)
	known["grace"] = func(n *yaml.Node) error { return readPositiveDuration(n, &h.Grace) }
	known["failures"] = func(n *yaml.Node) error { return readFailures(n, &h.Failures) }
	return readFields(n, known)
}

func readCheck(n *yaml.Node, to **job.Check) error {
	*to = &job.Check{}
	return readFields(n, checkReaders(*to))
}

func checkReaders(c *job.Check) map[string]valueReader {
	return map[string]valueReader{
		"command":  func(n *yaml.Node) error { return readCommand(n, &c.Command) },
		"http":     func(n *yaml.Node) error { return readHTTPCheck(n, &c.HTTP) },
		"tcp":      func(n *yaml.Node) error { return readTCPCheck(n, &c.TCP) },
		"delay":    func(n *yaml.Node) error { return readDuration(n, &c.Delay) },
		"interval": func(n *yaml.Node) error { return readPositiveDuration(n, &c.Interval) },
		"timeout":  func(n *yaml.Node) error { return readPositiveDuration(n, &c.Timeout) },
	}
}

// readHTTPCheck reads a path, on the job's first port, or keys.
func readHTTPCheck(n *yaml.Node, to **job.HTTPCheck) error {
	h := &job.HTTPCheck{}
	*to = h
	if n.Kind == yaml.ScalarNode {
		return readText(n, &h.Path)
	}
	known := checkPortReaders(n, &h.CheckPort)
	known["path"] = func(n *yaml.Node) error { return readText(n, &h.Path) }
	known["tls"] = func(n *yaml.Node) error { return readFlag(n, &h.TLS) }
	return readFields(n, known)
}

// readTCPCheck reads a port's number, or keys.
func readTCPCheck(n *yaml.Node, to **job.TCPCheck) error {
	t := &job.TCPCheck{}
	*to = t
	if n.Kind == yaml.ScalarNode {
		return readPortNumber(n, &t.Port)
	}
	return readFields(n, checkPortReaders(n, &t.CheckPort))
}

func checkPortReaders(n *yaml.Node, to *job.CheckPort) map[string]valueReader {
	return map[string]valueReader{
		"port": func(n *yaml.Node) error { return readPortNumber(n, &to.Port) },
		"port_index": func(index *yaml.Node) error {
			if hasKey(n, "port") {
				return errors.New("stands beside port: name one")
			}
			if err := readCount(index, &to.Index); err != nil {
				return err
			}
			if to.Index < 0 || to.Index >= job.MaxPorts {
				return fmt.Errorf("%d is not between 0 and %d", to.Index, job.MaxPorts-1)
			}
			return nil
		},
	}
}

func hasKey(n *yaml.Node, key string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

func readFailures(n *yaml.Node, to *int) error {
	if n.Kind == yaml.ScalarNode && n.Value == neverText {
		*to = job.Unlimited
		return nil
	}
	if v, err := strconv.Atoi(n.Value); n.Kind != yaml.ScalarNode || err != nil || v < 1 {
		return fmt.Errorf("%q is neither a whole number above 0 nor %s", n.Value, neverText)
	}
	return readCount(n, to)
}
