package master

import (
	"encoding/json"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/job"
)

// convertHealthChecks converts a job's health checks for the task with the
// given host ports. A TaskInfo has room for the first; the others go into the
// LaunchData.
func convertHealthChecks(s *job.Spec, ports []int) (first *mesos.HealthCheck, more []json.RawMessage, err error) {
	for i, h := range s.HealthChecks() {
		m := convertHealthCheck(s, h, ports)
		if i == 0 {
			first = m
			continue
		}
		text, err := json.Marshal(m)
		if err != nil {
			return nil, nil, fmt.Errorf("encode health check %d: %w", i+1, err)
		}
		more = append(more, text)
	}
	return first, more, nil
}

// convertHealthCheck converts one health check.
func convertHealthCheck(s *job.Spec, h *job.HealthCheck, ports []int) *mesos.HealthCheck {
	failures := uint32(max(h.Failures, 0))
	m := &mesos.HealthCheck{
		DelaySeconds: secondsPtr(h.Delay), IntervalSeconds: secondsPtr(h.Interval), TimeoutSeconds: secondsPtr(h.Timeout),
		GracePeriodSeconds: secondsPtr(h.Grace), ConsecutiveFailures: &failures,
	}
	switch {
	case h.HTTP != nil:
		scheme := "http"
		if h.HTTP.TLS {
			scheme = "https"
		}
		m.Type = mesos.HealthCheck_HTTP
		m.HTTP = &mesos.HealthCheck_HTTPCheckInfo{Scheme: &scheme, Port: checkPort(s, h.HTTP.CheckPort, ports), Path: &h.HTTP.Path}
	case h.TCP != nil:
		m.Type, m.TCP = mesos.HealthCheck_TCP, &mesos.HealthCheck_TCPCheckInfo{Port: checkPort(s, h.TCP.CheckPort, ports)}
	default:
		m.Type, m.Command = mesos.HealthCheck_COMMAND, checkCommand(s, h.Command)
	}
	return m
}

// convertCheck converts the job's check, whose result is only reported; nil if it has none.
func convertCheck(s *job.Spec, ports []int) *mesos.CheckInfo {
	c := s.Check
	if c == nil {
		return nil
	}
	m := &mesos.CheckInfo{DelaySeconds: secondsPtr(c.Delay), IntervalSeconds: secondsPtr(c.Interval), TimeoutSeconds: secondsPtr(c.Timeout)}
	switch {
	case c.HTTP != nil:
		m.Type, m.HTTP = mesos.CheckInfo_HTTP, &mesos.CheckInfo_Http{Port: checkPort(s, c.HTTP.CheckPort, ports), Path: &c.HTTP.Path}
	case c.TCP != nil:
		m.Type, m.TCP = mesos.CheckInfo_TCP, &mesos.CheckInfo_Tcp{Port: checkPort(s, c.TCP.CheckPort, ports)}
	default:
		m.Type, m.Command = mesos.CheckInfo_COMMAND, &mesos.CheckInfo_Command{Command: *checkCommand(s, c.Command)}
	}
	return m
}

// checkPort returns the port number where the task listens for a check.
func checkPort(s *job.Spec, p job.CheckPort, ports []int) uint32 {
	if p.Port != 0 {
		return uint32(p.Port)
	}
	if p.Index >= len(ports) || p.Index >= len(s.Ports) {
		return 0 // Validate rejects such indexes
	}
	if s.Network.IsHost() {
		return uint32(ports[p.Index])
	}
	return uint32(containerPort(s.Ports[p.Index], ports[p.Index]))
}

// warningPort returns the port of the job's warning, 0 if that makes no HTTP request.
func warningPort(s *job.Spec, ports []int) int {
	if s.Warn == nil || s.Warn.HTTP == "" {
		return 0
	}
	return int(checkPort(s, job.CheckPort{}, ports))
}

// checkCommand returns a command as each containerizer expects it: the
// arguments start with the program's name, except for docker.
func checkCommand(s *job.Spec, argv []string) *mesos.CommandInfo {
	shell := false
	c := &mesos.CommandInfo{Shell: &shell, Value: &argv[0], Arguments: argv}
	if s.Containerizer == job.Docker {
		c.Arguments = argv[1:]
	}
	return c
}

// secondsPtr returns a duration in seconds, for an optional field.
func secondsPtr(d time.Duration) *float64 {
	s := d.Seconds()
	return &s
}

// describeCheckResult describes the result of a check; "" without a result.
func describeCheckResult(s *mesos.CheckStatusInfo) string {
	switch {
	case s == nil:
		return ""
	case s.Command != nil && s.Command.ExitCode != nil:
		return fmt.Sprintf("exit status %d", *s.Command.ExitCode)
	case s.HTTP != nil && s.HTTP.StatusCode != nil:
		return fmt.Sprintf("HTTP status %d", *s.HTTP.StatusCode)
	case s.TCP != nil && s.TCP.Succeeded != nil && *s.TCP.Succeeded:
		return "connected"
	case s.TCP != nil && s.TCP.Succeeded != nil:
		return "not connected"
	default:
		return "no result" // not yet, or it took too long
	}
}
