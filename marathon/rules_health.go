package marathon

import "slices"

func (f *appNormalizer) checkHealthChecks() {
	for i, h := range f.app.HealthChecks {
		f.checkHealthCheck(elementPath("/healthChecks", i), h)
	}
}

func (f *appNormalizer) checkHealthCheck(place string, h HealthCheck) {
	if h.Protocol == commandProtocol {
		if h.Command == nil {
			f.addError(place, "protocol COMMAND needs a command")
		}
		if h.Port != nil || h.Path != "" {
			f.addError(place, "protocol COMMAND has no path and no port")
		}
		return
	}
	if h.Command != nil {
		f.addError(place, "a command goes with protocol COMMAND, not with %s", h.Protocol)
		return
	}
	f.checkPort(place, h.Port, h.PortIndex)
}

// checkPort checks the port of a check. Without port and index the app has exactly one.
func (f *appNormalizer) checkPort(place string, port, index *int) {
	ports := f.app.portCount()
	switch {
	case index != nil && *index >= ports:
		f.addError(place, "portIndex %d is beyond the app's ports, of which there are %d", *index, ports)
	case index == nil && port == nil && ports != 1:
		f.addError(place, "it needs a port or a portIndex: the app has %d ports", ports)
	}
}

func (f *appNormalizer) checkGeneralCheck() {
	c := f.app.Check
	if c == nil {
		return
	}
	if n := countTrue(c.HTTP != nil, c.TCP != nil, c.Exec != nil); n != 1 {
		f.addError("/check", "a check has one of http, tcp and exec, not %d", n)
	}
	if c.Exec != nil && countTrue(c.Exec.Command.Shell != "", len(c.Exec.Command.Argv) > 0) != 1 {
		f.addError("/check/exec/command", "a command is either shell or argv")
	}
	if c.HTTP != nil {
		f.checkPort("/check/http", c.HTTP.Port, c.HTTP.PortIndex)
	}
	if c.TCP != nil {
		f.checkPort("/check/tcp", c.TCP.Port, c.TCP.PortIndex)
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

func (f *appNormalizer) checkReadinessChecks() {
	if n := len(f.app.ReadinessChecks); n > 1 {
		f.addError("/readinessChecks", "an app has at most one, not %d", n)
	}
	names := f.app.HostPortNames()
	for i, r := range f.app.ReadinessChecks {
		place := elementPath("/readinessChecks", i)
		if !slices.Contains(names, r.PortName) {
			f.addError(place+"/portName", "no port has the name %q: %s", r.PortName, describeNames(names))
		}
		if r.TimeoutSeconds >= r.IntervalSeconds {
			f.addError(place+"/timeoutSeconds", "%d is not less than the intervalSeconds of %d", r.TimeoutSeconds, r.IntervalSeconds)
		}
	}
}
