package check

import (
	"fmt"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// probeInfo is the common part of a health check and a check. what names it in
// errors.
type probeInfo struct {
	what, kind   string
	command      *mesos.CommandInfo
	path, scheme *string // HTTP only
	http, tcp    bool
	times        map[string]*float64
}

func ofHealthCheck(h *mesos.HealthCheck) probeInfo {
	p := probeInfo{what: "health check", kind: h.Type.String(), command: h.Command, http: h.HTTP != nil, tcp: h.TCP != nil,
		times: map[string]*float64{
			"delay_seconds": h.DelaySeconds, "interval_seconds": h.IntervalSeconds, "timeout_seconds": h.TimeoutSeconds,
			"grace_period_seconds": h.GracePeriodSeconds,
		}}
	if h.HTTP != nil {
		p.path, p.scheme = h.HTTP.Path, h.HTTP.Scheme
	}
	return p
}

func ofCheck(c *mesos.CheckInfo) probeInfo {
	p := probeInfo{what: "check", kind: c.Type.String(), http: c.HTTP != nil, tcp: c.TCP != nil,
		times: map[string]*float64{"delay_seconds": c.DelaySeconds, "interval_seconds": c.IntervalSeconds, "timeout_seconds": c.TimeoutSeconds}}
	if c.Command != nil {
		p.command = &c.Command.Command
	}
	if c.HTTP != nil {
		p.path = c.HTTP.Path
	}
	return p
}

// validateProbes checks a task's health check and check.
func validateProbes(t mesos.TaskInfo) error {
	if t.HealthCheck != nil {
		if err := ofHealthCheck(t.HealthCheck).validateProbe(); err != nil {
			return fmt.Errorf("task uses invalid health check: %w", err)
		}
	}
	if t.Check != nil {
		if err := ofCheck(t.Check).validateProbe(); err != nil {
			return fmt.Errorf("task uses invalid check: %w", err)
		}
	}
	return nil
}

func (p probeInfo) validateProbe() error {
	switch {
	case p.kind == "COMMAND" && p.command == nil:
		return fmt.Errorf("expecting 'command' to be set for COMMAND %s", p.what)
	case p.kind == "COMMAND" && p.command.Value == nil:
		return fmt.Errorf("command %s must contain a command", p.what)
	case p.kind == "HTTP" && !p.http:
		return fmt.Errorf("expecting 'http' to be set for HTTP %s", p.what)
	case p.kind == "HTTP" && p.scheme != nil && *p.scheme != "http" && *p.scheme != "https":
		return fmt.Errorf("unsupported HTTP %s scheme: '%s'", p.what, *p.scheme)
	case p.kind == "HTTP" && p.path != nil && !strings.HasPrefix(*p.path, "/"):
		return fmt.Errorf("the path '%s' of HTTP %s must start with '/'", *p.path, p.what)
	case p.kind == "TCP" && !p.tcp:
		return fmt.Errorf("expecting 'tcp' to be set for TCP %s", p.what)
	case p.kind != "COMMAND" && p.kind != "HTTP" && p.kind != "TCP":
		return fmt.Errorf("'%s' is not a valid %s type", p.kind, p.what)
	}
	for name, seconds := range p.times {
		if seconds != nil && *seconds < 0 {
			return fmt.Errorf("expecting '%s' to be non-negative", name)
		}
	}
	return nil
}
