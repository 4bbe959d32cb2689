package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// containerFlags are the flags of a job's container, by docker run's names.
type containerFlags struct {
	volumes, publish, ulimits, labels []string
	network, shm, ipc, pull           string
	ports                             int
	health                            healthCheckFlags
}

func (w *containerFlags) register(f *pflag.FlagSet, s *job.Spec) {
	f.StringArrayVarP(&w.volumes, "volume", "v", nil, "SOURCE:TARGET[:ro], a path of the agent or a named volume, and where the container sees it")
	f.StringVar(&w.network, "network", "", "host, bridge, none or a network of the agents' Docker engines (default host)")
	f.IntVar(&w.ports, "ports", 0, "host ports for each task")
	f.StringArrayVarP(&w.publish, "publish", "p", nil, "a container's own port, as 8080, 9090/udp or HOST:8080; without HOST the scheduler chooses the host's port")
	f.StringVar(&w.shm, "shm-size", "", "size of /dev/shm, such as 8GiB; it counts as memory")
	f.StringVar(&w.ipc, "ipc", "", "private or host")
	f.StringArrayVar(&w.ulimits, "ulimit", nil, "NAME=LIMIT or NAME=SOFT:HARD, such as memlock=unlimited")
	f.StringArrayVarP(&w.labels, "label", "l", nil, "NAME=value, for people and their tools")
	f.StringVar(&w.pull, "pull", "missing", "always: fetch the image anew for each attempt; or missing")
	f.StringVar(&s.Entrypoint, "entrypoint", "", "replaces the image's; the command is then its arguments")
	f.StringVarP(&s.User, "user", "u", "", "whom the task runs as, as NAME, UID or UID:GID (default the image's)")
	w.health.register(f)
}

// applyTo reads what flags give as text, and says all that is wrong.
func (w *containerFlags) applyTo(s *job.Spec) error {
	var errs []error
	bad := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	for _, text := range w.volumes {
		v, err := job.ParseVolume(text)
		bad("volume", err)
		s.Volumes = append(s.Volumes, v)
	}
	s.Network, s.IPC = job.NetworkMode(w.network), job.IPCMode(w.ipc)
	bad("ports", w.applyPortCount(s))
	for _, text := range w.publish {
		p, err := job.ParsePort(text)
		bad("publish", err)
		s.Ports = append(s.Ports, p)
	}
	for _, text := range w.ulimits {
		name, limits, ok := strings.Cut(text, "=")
		if !ok {
			bad("ulimit", fmt.Errorf("%q: write NAME=LIMIT or NAME=SOFT:HARD", text))
			continue
		}
		u, err := job.ParseUlimit(name, limits)
		bad("ulimit", err)
		s.Ulimits = append(s.Ulimits, u)
	}
	if w.shm != "" {
		var err error
		s.ShmMiB, err = jobfile.ParseSize(w.shm)
		bad("shm-size", err)
	}
	var err error
	s.Labels, err = parseAssignments(w.labels)
	bad("label", err)
	if w.pull != "always" && w.pull != "missing" {
		bad("pull", fmt.Errorf("%q is neither always nor missing", w.pull))
	}
	s.ForcePull = w.pull == "always"
	errs = append(errs, w.health.applyTo(s))
	if err := errors.Join(errs...); err != nil {
		return &usageError{err}
	}
	return nil
}

func (w *containerFlags) applyPortCount(s *job.Spec) error {
	if w.ports != 0 && len(w.publish) > 0 {
		return errors.New("counts ports without a number in the container, and --publish those with one: give one of them")
	}
	if w.ports < 0 || w.ports > job.MaxPorts {
		return fmt.Errorf("%d is not between 0 and %d", w.ports, job.MaxPorts)
	}
	s.Ports = make([]job.Port, w.ports)
	return nil
}

// healthCheckFlags are the flags of a health check.
type healthCheckFlags struct {
	command, http, tcp              string
	delay, interval, timeout, grace time.Duration
	retries                         int
}

func (w *healthCheckFlags) register(f *pflag.FlagSet) {
	f.StringVar(&w.command, "health-cmd", "", "a line for /bin/sh that exits with 0 while the task is well")
	f.StringVar(&w.http, "health-http", "", "[PORT]/PATH that answers 200 to 399 while the task is well; without PORT on its first port")
	f.StringVar(&w.tcp, "health-tcp", "", "PORT that takes connections while the task is well, or first: its first port")
	f.DurationVar(&w.delay, "health-delay", 0, "wait before the first check")
	f.DurationVar(&w.interval, "health-interval", 0, fmt.Sprintf("wait between two checks (default %s)", job.DefaultCheckInterval))
	f.DurationVar(&w.timeout, "health-timeout", 0, fmt.Sprintf("how long a check may take (default %s)", job.DefaultCheckTimeout))
	f.DurationVar(&w.grace, "health-start-period", 0, fmt.Sprintf("how long failures of a task that starts do not count (default %s)", job.DefaultHealthGrace))
	f.IntVar(&w.retries, "health-retries", 0, fmt.Sprintf("failures in a row that end the task; -1 is never (default %d)", job.DefaultHealthFailures))
}

func (w *healthCheckFlags) applyTo(s *job.Spec) error {
	if *w == (healthCheckFlags{}) {
		return nil
	}
	h := &job.HealthCheck{Grace: w.grace, Failures: w.retries}
	h.Delay, h.Interval, h.Timeout = w.delay, w.interval, w.timeout
	ways := 0
	if w.command != "" {
		h.Command, ways = []string{"/bin/sh", "-c", w.command}, ways+1
	}
	if w.http != "" {
		port, path, _ := strings.Cut(w.http, "/")
		h.HTTP, ways = &job.HTTPCheck{Path: "/" + path}, ways+1
		if err := parseCheckPort(port, &h.HTTP.CheckPort); err != nil {
			return fmt.Errorf("--health-http: %w", err)
		}
	}
	if w.tcp != "" {
		h.TCP, ways = &job.TCPCheck{}, ways+1
		if err := parseCheckPort(strings.TrimPrefix(w.tcp, "first"), &h.TCP.CheckPort); err != nil {
			return fmt.Errorf("--health-tcp: %w", err)
		}
	}
	if ways != 1 {
		return fmt.Errorf("a health check is one of --health-cmd, --health-http and --health-tcp: %d are given", ways)
	}
	s.HealthCheck = h
	return nil
}

// parseCheckPort reads a number, or nothing for the first port.
func parseCheckPort(text string, to *job.CheckPort) error {
	if text == "" {
		return nil
	}
	p, err := job.ParsePort(text)
	if err != nil || p.Protocol != "" || p.Host != 0 {
		return fmt.Errorf("%q is no port from 1 to 65535", text)
	}
	to.Port = p.Container
	return nil
}

// parseAssignments reads NAME=value pairs.
func parseAssignments(pairs []string) (map[string]string, error) {
	var all map[string]string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q: write NAME=value", pair)
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	}
	return all, nil
}
