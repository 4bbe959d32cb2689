package marathon

import "slices"

func (norm *appNormalizer) checkHealthChecks() {
	for i, h := range norm.app.HealthChecks {
		norm.checkHealthCheck(elementPath("/healthChecks", i), h)
	}
}

func (norm *appNormalizer) checkHealthCheck(place string, h HealthCheck) {
	if h.Protocol == commandProtocol {
		if h.Command == nil {
			norm.addError(place, "protocol COMMAND needs a command")
		}
		if h.Port != nil || h.Path != "" {
			norm.addError(place, "protocol COMMAND has no path and no port")
		}
		return
	}
	if h.Command != nil {
		norm.addError(place, "a command goes with protocol COMMAND, not with %s", h.Protocol)
		return
	}
	norm.checkPort(place, h.Port, h.PortIndex)
}

// checkPort checks the port of a check. Without port and index the app has exactly one.
func (norm *appNormalizer) checkPort(place string, port, index *int) {
	ports := norm.app.portCount()
	switch {
	case index != nil && *index >= ports:
		norm.addError(place, "portIndex %d is beyond the app's ports, of which there are %d", *index, ports)
	case index == nil && port == nil && ports != 1:
		norm.addError(place, "it needs a port or a portIndex: the app has %d ports", ports)
	}
}

func (norm *appNormalizer) checkGeneralCheck() {
	c := norm.app.Check
	if c == nil {
		return
	}
	if n := countTrue(c.HTTP != nil, c.TCP != nil, c.Exec != nil); n != 1 {
		norm.addError("/check", "a check has one of http, tcp and exec, not %d", n)
	}
	if c.Exec != nil && countTrue(c.Exec.Command.Shell != "", len(c.Exec.Command.Argv) > 0) != 1 {
		norm.addError("/check/exec/command", "a command is either shell or argv")
	}
	if c.HTTP != nil {
		norm.checkPort("/check/http", c.HTTP.Port, c.HTTP.PortIndex)
	}
	if c.TCP != nil {
		norm.checkPort("/check/tcp", c.TCP.Port, c.TCP.PortIndex)
	}
}

func countTrue(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

func (norm *appNormalizer) checkReadinessChecks() {
	if n := len(norm.app.ReadinessChecks); n > 1 {
		norm.addError("/readinessChecks", "an app has at most one, not %d", n)
	}
	names := norm.app.HostPortNames()
	for i, r := range norm.app.ReadinessChecks {
		place := elementPath("/readinessChecks", i)
		if !slices.Contains(names, r.PortName) {
			norm.addError(place+"/portName", "no port has the name %q: %s", r.PortName, describeNames(names))
		}
		if r.TimeoutSeconds >= r.IntervalSeconds {
			norm.addError(place+"/timeoutSeconds", "%d is not less than the intervalSeconds of %d", r.TimeoutSeconds, r.IntervalSeconds)
		}
	}
}
