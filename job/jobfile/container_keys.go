package jobfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// The values of keys about a task's container and its checks.

// fetchList is a list of URIs and of mappings.
func fetchList() valueFormat[[]job.FetchArtifact] {
	return listOf("[https://example.org/model.tar.gz]", object(
		key("uri", word(""), func(a *job.FetchArtifact) *string { return &a.URI },
			"a URI such as `https://example.org/model.tar.gz`, or a path of the agent").needed(),
		key("path", word(""), func(a *job.FetchArtifact) *string { return &a.Path },
			"name in the sandbox; absent, the last part of the `uri`"),
		key("extract", boolean(), func(a *job.FetchArtifact) *bool { return &a.Extract },
			"`true`: unpack the archive"),
		key("executable", boolean(), func(a *job.FetchArtifact) *bool { return &a.Executable },
			"`true`: make the file executable"),
		key("cache", boolean(), func(a *job.FetchArtifact) *bool { return &a.Cache },
			"`true`: the agent caches the file for other tasks"),
	).orShort(func(n *yaml.Node, a *job.FetchArtifact) error { return readText(n, &a.URI) }, wordSchema("")))
}

// volumeList is a list of "SOURCE:TARGET[:ro]" and of mappings.
func volumeList() valueFormat[[]job.Volume] {
	return listOf(`["/data:/data:ro"]`, object(
		key("source", word(""), func(v *job.Volume) *string { return &v.Source },
			"path of the agent, or name of a volume of its Docker engine").needed(),
		key("target", word(""), func(v *job.Volume) *string { return &v.Target },
			"absolute path inside the container").needed(),
		key("read_only", boolean(), func(v *job.Volume) *bool { return &v.ReadOnly },
			"`true`: mounted read-only"),
		key("driver", word(""), func(v *job.Volume) *string { return &v.Driver },
			"Docker volume driver of a named volume; absent, the engine's default"),
	).orShort(shortText(job.ParseVolume), wordSchema(`^[^:]+:[^:]+(:(ro|rw))?$`))).
		withFlags(appendFlag(Flag{
			Name:      "volume",
			Shorthand: "v",
			Kind:      RepeatedFlag,
			Usage:     "SOURCE:TARGET[:ro]: a path of the agent or a named volume, and its path in the container",
		}, job.ParseVolume))
}

// portList is a number of ports, or a list of container ports: 8080, "9090/udp",
// "80:8080", {name, container, host, protocol}.
func portList() valueFormat[[]job.Port] {
	one := valueSchema{"type": []string{"integer", "string"}, "minimum": 1, "maximum": 65535, "pattern": portPattern}
	f := listOf("[8080, 9090/udp]", object(
		key("name", word(""), func(p *job.Port) *string { return &p.Name },
			"name of the port"),
		key("container", portNumber(), func(p *job.Port) *int { return &p.Container },
			"port inside a container with a network of its own; absent, the number of the host port"),
		key("host", portNumber(), func(p *job.Port) *int { return &p.Host },
			"required host port: the task runs only on an agent where it is free; absent, any"),
		key("service", portNumber(), func(p *job.Port) *int { return &p.Service },
			"number by which clients know the port, if it is another one; the task gets the host port as `PORT_<service>`"),
		key("protocol", oneOf(job.TCP, job.UDP), func(p *job.Port) *job.PortProtocol { return &p.Protocol },
			"`tcp` or `udp`; absent, `tcp`"),
	).orShort(shortText(job.ParsePort), one))
	readList, writeList := f.read, f.write
	f.read = func(n *yaml.Node, to *[]job.Port) error {
		if n.Kind == yaml.ScalarNode {
			return readPortCount(n, to)
		}
		return readList(n, to)
	}
	f.write = func(list []job.Port) any {
		if !slices.ContainsFunc(list, func(p job.Port) bool { return p != job.Port{} }) {
			return len(list)
		}
		return writeList(list)
	}
	f.schema = eitherSchema(integerSchema(0, job.MaxPorts), f.schema)
	return f.withFlags(
		flagOf[[]job.Port]{Flag{Name: "ports", Kind: IntFlag, Usage: "number of host ports for each task"}, func(to *[]job.Port, texts []string) error {
			var number int
			if err := readCount(scalarNode(texts[len(texts)-1]), &number); err != nil {
				return err
			}
			if number < 0 || number > job.MaxPorts {
				return fmt.Errorf("%d is not between 0 and %d", number, job.MaxPorts)
			}
			*to = make([]job.Port, number)
			return nil
		}},
		publishFlag(),
	)
}

// publishFlag adds container ports. It is applied after --ports. The two exclude each other.
func publishFlag() flagOf[[]job.Port] {
	f := appendFlag(Flag{
		Name:      "publish",
		Shorthand: "p",
		Kind:      RepeatedFlag,
		Usage:     "container port, as 8080, 9090/udp or HOST:8080; without HOST the scheduler chooses the host port",
	}, job.ParsePort)
	appendPorts := f.apply
	f.apply = func(to *[]job.Port, texts []string) error {
		if len(*to) > 0 {
			return errors.New("--ports counts ports without a container port, and --publish names those with one: give one of them")
		}
		return appendPorts(to, texts)
	}
	return f
}

// readPortCount reads a number of host ports, none of which belongs to a port of the container.
func readPortCount(n *yaml.Node, to *[]job.Port) error {
	var number int
	if err := readCount(n, &number); err != nil {
		return fmt.Errorf("%w, nor a list such as [8080, 9090/udp]", err)
	}
	if number < 0 || number > job.MaxPorts {
		return fmt.Errorf("%d is not between 0 and %d: write a container port as a list, for example [8080]", number, job.MaxPorts)
	}
	*to = make([]job.Port, number)
	return nil
}

// ulimits are {memlock: unlimited, stack: "8388608:16777216"}.
func ulimits() valueFormat[[]job.Ulimit] {
	f := valueFormat[[]job.Ulimit]{
		read:   readUlimits,
		schema: mapSchema(valueSchema{"type": []string{"integer", "string"}, "minimum": job.Unlimited, "pattern": ulimitPattern}),
	}
	f.write = func(list []job.Ulimit) any {
		m := newMapping()
		for _, u := range list {
			limits := encodeUlimit(u.Soft)
			if u.Hard != u.Soft {
				limits += ":" + encodeUlimit(u.Hard)
			}
			m.addKey(u.Name, limits)
		}
		return m
	}
	return f.withFlags(appendFlag(Flag{Name: "ulimit", Kind: RepeatedFlag, Usage: "NAME=LIMIT or NAME=SOFT:HARD, such as memlock=unlimited"},
		func(text string) (job.Ulimit, error) {
			name, limits, ok := strings.Cut(text, "=")
			if !ok {
				return job.Ulimit{}, fmt.Errorf("%q: write NAME=LIMIT or NAME=SOFT:HARD", text)
			}
			return job.ParseUlimit(name, limits)
		}))
}

// readUlimits reads limits by name. The text of each is parsed by package job, as that of the flag is.
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

// encodeUlimit is the reverse of job.ParseUlimit, for one of the two limits.
func encodeUlimit(v int64) string {
	if v == job.Unlimited {
		return job.UnlimitedText
	}
	return strconv.FormatInt(v, 10)
}

// parameterList is a list of "key=value" and of {key, value}.
func parameterList() valueFormat[[]job.DockerParameter] {
	return listOf("[init=true]", object(
		key("key", word(""), func(p *job.DockerParameter) *string { return &p.Key },
			"option of `docker run`, without its dashes").needed().alwaysWritten(),
		key("value", anyWord(), func(p *job.DockerParameter) *string { return &p.Value },
			"value of the option").alwaysWritten(),
	).orShort(shortText(job.ParseParameter), wordSchema(`^[^=]+=`)))
}

// healthCheckList is one health check, or a list of several.
func healthCheckList() valueFormat[job.Container] {
	one := exactlyOneMethod(object(healthCheckKeys()...))
	f := valueFormat[job.Container]{keys: one.keys}
	f.read = func(n *yaml.Node, to *job.Container) error {
		to.HealthCheck = &job.HealthCheck{}
		if n.Kind != yaml.SequenceNode {
			return one.read(n, to.HealthCheck)
		}
		if len(n.Content) == 0 {
			return errors.New("is an empty list: leave it out")
		}
		to.MoreHealthChecks = make([]job.HealthCheck, len(n.Content)-1)
		checks := to.HealthChecks()
		return readEach(n, "[{http: /health}, {tcp: 9090}]", func(item *yaml.Node) error {
			next := checks[0]
			checks = checks[1:]
			return one.read(item, next)
		})
	}
	f.write = func(c job.Container) any {
		var list []any
		for _, h := range c.HealthChecks() {
			list = append(list, one.write(*h))
		}
		if len(list) == 1 {
			return list[0]
		}
		return list
	}
	several := listSchema(1, one.schema)
	several["maxItems"] = job.MaxHealthChecks
	f.schema = eitherSchema(one.schema, several)
	for _, fl := range one.flags {
		f.flags = append(f.flags, flagOf[job.Container]{fl.Flag, func(to *job.Container, texts []string) error {
			if to.HealthCheck == nil {
				to.HealthCheck = &job.HealthCheck{}
			}
			return fl.apply(to.HealthCheck, texts)
		}})
	}
	return f
}

// healthCheckKeys are the keys of one health check: those of a check, and when its failures count.
func healthCheckKeys() []keyField[job.HealthCheck] {
	return append(checkKeys(func(h *job.HealthCheck) *job.Check { return &h.Check }),
		key("grace", positiveDuration().withFlags(flagReadBy(Flag{
			Name:  "health-start-period",
			Kind:  DurationFlag,
			Usage: fmt.Sprintf("how long after a task's start failures do not count (default %s)", job.DefaultHealthGrace),
		}, readDuration)),
			func(h *job.HealthCheck) *time.Duration { return &h.Grace },
			"how long after a task's start failures do not count").alwaysWritten(),
		key("failures", failureCount(), func(h *job.HealthCheck) *int { return &h.Failures },
			"how many failures in a row end the task, or `never`").alwaysWritten())
}

// neverText is how users write that a health check ends no task.
const neverText = "never"

// failureCount is a number above 0, or the word never. The flag has the number -1 for it, because its type is a number.
func failureCount() valueFormat[int] {
	f := valueFormat[int]{
		read: func(n *yaml.Node, to *int) error {
			if n.Kind == yaml.ScalarNode && n.Value == neverText {
				*to = job.Unlimited
				return nil
			}
			if v, err := strconv.Atoi(n.Value); n.Kind != yaml.ScalarNode || err != nil || v < 1 {
				return fmt.Errorf("%q is neither a whole number above 0 nor %s", n.Value, neverText)
			}
			return readCount(n, to)
		},
		write: func(v int) any {
			if v == job.Unlimited {
				return neverText
			}
			return v
		},
		schema: eitherSchema(enumSchema(neverText), integerSchema(1, job.MaxRetries)),
	}
	return f.withFlags(flagReadBy(Flag{
		Name:  "health-retries",
		Kind:  IntFlag,
		Usage: fmt.Sprintf("failures in a row that end the task; -1 for never (default %d)", job.DefaultHealthFailures),
	}, readCount))
}

// generalCheck has no flags: those of checkKeys set the health check.
func generalCheck() valueFormat[job.Check] {
	f := exactlyOneMethod(object(checkKeys(func(c *job.Check) *job.Check { return c })...))
	f.flags = nil
	return f
}

// exactlyOneMethod adds to the schema what Validate checks: command, http and
// tcp exclude each other.
func exactlyOneMethod[T any](f valueFormat[T]) valueFormat[T] {
	return f.withSchema("oneOf", []valueSchema{{"required": []string{"command"}}, {"required": []string{"http"}}, {"required": []string{"tcp"}}})
}

// checkKeys are the keys of the check in an S.
func checkKeys[S any](at func(s *S) *job.Check) []keyField[S] {
	wait := func(name, usage string) flagOf[time.Duration] {
		return flagReadBy(Flag{Name: name, Kind: DurationFlag, Usage: usage}, readDuration)
	}
	return []keyField[S]{
		key("command", commandLine().withFlags(flagOf[[]string]{Flag{Name: "health-cmd", Usage: "line for /bin/sh that exits with 0 if the task is healthy"},
			func(to *[]string, texts []string) error {
				*to = shellCommand(texts[len(texts)-1])
				return nil
			}}), func(s *S) *[]string { return &at(s).Command },
			"list of arguments, or line for `/bin/sh -c`, that exits with 0 if the task is healthy"),
		key("http", httpCheck(), func(s *S) **job.HTTPCheck { return &at(s).HTTP },
			"path such as `/health`, or `{path, port, port_index, tls}`: a GET must answer with 200 to 399"),
		key("tcp", tcpCheck(), func(s *S) **job.TCPCheck { return &at(s).TCP },
			"port number, or `{port}` or `{port_index}`: it must accept connections"),
		key("delay", duration().withFlags(wait("health-delay", "wait before the first attempt")), func(s *S) *time.Duration { return &at(s).Delay },
			"wait before the first attempt"),
		key("interval",
			positiveDuration().withFlags(wait("health-interval", fmt.Sprintf("wait between two attempts (default %s)", job.DefaultCheckInterval))),
			func(s *S) *time.Duration { return &at(s).Interval },
			"wait between two attempts").alwaysWritten(),
		key("timeout",
			positiveDuration().withFlags(wait("health-timeout", fmt.Sprintf("maximum time of an attempt (default %s)", job.DefaultCheckTimeout))),
			func(s *S) *time.Duration { return &at(s).Timeout },
			"maximum time of an attempt").alwaysWritten(),
	}
}

// httpCheck is a path, for the job's first port, or a mapping.
func httpCheck() valueFormat[*job.HTTPCheck] {
	fields := append(checkPortKeys(func(h *job.HTTPCheck) *job.CheckPort { return &h.CheckPort }),
		key("path", word("^/"), func(h *job.HTTPCheck) *string { return &h.Path },
			"path to GET; absent, `/`"),
		key("tls", boolean(), func(h *job.HTTPCheck) *bool { return &h.TLS },
			"`true`: use TLS, without checking the certificate"))
	return optional(onePort(object(fields...)).orShort(func(n *yaml.Node, h *job.HTTPCheck) error { return readText(n, &h.Path) }, wordSchema(""))).
		withFlags(flagOf[*job.HTTPCheck]{Flag{Name: "health-http", Usage: "[PORT]/PATH that must answer with 200 to 399; without PORT on the task's first port"},
			func(to **job.HTTPCheck, texts []string) error {
				port, path, _ := strings.Cut(texts[len(texts)-1], "/")
				*to = &job.HTTPCheck{Path: "/" + path}
				return parseCheckPort(port, &(*to).CheckPort)
			}})
}

// tcpCheck is a port number, or a mapping.
func tcpCheck() valueFormat[*job.TCPCheck] {
	return optional(onePort(object(checkPortKeys(func(t *job.TCPCheck) *job.CheckPort { return &t.CheckPort })...)).
		orShort(func(n *yaml.Node, t *job.TCPCheck) error {
			if n.Value == "first" {
				return nil
			}
			return readPortNumber(n, &t.Port)
		}, eitherSchema(portNumber().schema, enumSchema("first")))).
		withFlags(flagOf[*job.TCPCheck]{Flag{Name: "health-tcp", Usage: "PORT that must accept connections, or first: the task's first port"},
			func(to **job.TCPCheck, texts []string) error {
				*to = &job.TCPCheck{}
				return parseCheckPort(strings.TrimPrefix(texts[len(texts)-1], "first"), &(*to).CheckPort)
			}})
}

// parseCheckPort parses a port number. Empty text means the first port.
func parseCheckPort(text string, to *job.CheckPort) error {
	if text == "" {
		return nil
	}
	p, err := job.ParsePort(text)
	if err != nil || p.Protocol != "" || p.Host != 0 {
		return fmt.Errorf("%q is not a port from 1 to 65535", text)
	}
	to.Port = p.Container
	return nil
}

// checkPortKeys are the keys of the port in an S. One of them is written.
func checkPortKeys[S any](at func(s *S) *job.CheckPort) []keyField[S] {
	index := count(0, job.MaxPorts-1)
	index.read = func(n *yaml.Node, to *int) error {
		if err := readCount(n, to); err != nil {
			return err
		}
		if *to < 0 || *to >= job.MaxPorts {
			return fmt.Errorf("%d is not between 0 and %d", *to, job.MaxPorts-1)
		}
		return nil
	}
	return []keyField[S]{
		key("port", portNumber(), func(s *S) *int { return &at(s).Port },
			"port number inside the container; excludes `port_index`"),
		key("port_index", index, func(s *S) *int { return &at(s).Index },
			"index into the job's ports, from 0; absent, the first").writtenIf(func(s *S) bool { return at(s).Port == 0 }),
	}
}

// onePort rejects a mapping with both port and port_index.
func onePort[T any](f valueFormat[T]) valueFormat[T] {
	return f.withSchema("not", valueSchema{"required": []string{"port", "port_index"}}).checked(func(n *yaml.Node, _ *T) error {
		index := findValue(n, "port_index")
		if index == nil || findValue(n, "port") == nil {
			return nil
		}
		return inKey("port_index", index, errors.New("excludes port: write one of them"))
	})
}

// matrixSchema describes include and exclude, and axes by other names.
func matrixSchema() valueSchema {
	entry := mapSchema(anyWordSchema())
	entry["minProperties"] = 1
	entries := listSchema(0, entry)
	s := objectSchema(map[string]valueSchema{"include": entries, "exclude": entries})
	s["additionalProperties"] = listSchema(1, anyWordSchema())
	s["propertyNames"], s["minProperties"] = valueSchema{"pattern": variablePattern}, 1
	return s
}
