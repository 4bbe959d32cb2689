package marathon

import "slices"

func (f *finish) healthRules() {
	for i, h := range f.app.HealthChecks {
		f.healthCheck(index("/healthChecks", i), h)
	}
}

func (f *finish) healthCheck(place string, h HealthCheck) {
	if h.Protocol == commandProtocol {
		if h.Command == nil {
			f.bad(place, "protocol COMMAND needs a command")
		}
		if h.Port != nil || h.Path != "" {
			f.bad(place, "protocol COMMAND has no path and no port")
		}
		return
	}
	if h.Command != nil {
		f.bad(place, "a command goes with protocol COMMAND, not with %s", h.Protocol)
		return
	}
	f.port(place, h.Port, h.PortIndex)
}

// port checks which port is asked: with neither, the only one.
func (f *finish) port(place string, port, index *int) {
	ports := f.app.portCount()
	switch {
	case index != nil && *index >= ports:
		f.bad(place, "portIndex %d is beyond the app's ports, of which there are %d", *index, ports)
	case index == nil && port == nil && ports != 1:
		f.bad(place, "it needs a port or a portIndex: the app has %d ports", ports)
	}
}

func (f *finish) checkRules() {
	c := f.app.Check
	if c == nil {
		return
	}
	if n := count(c.HTTP != nil, c.TCP != nil, c.Exec != nil); n != 1 {
		f.bad("/check", "a check has one of http, tcp and exec, not %d", n)
	}
	if c.Exec != nil && count(c.Exec.Command.Shell != "", len(c.Exec.Command.Argv) > 0) != 1 {
		f.bad("/check/exec/command", "a command is either shell or argv")
	}
	if c.HTTP != nil {
		f.port("/check/http", c.HTTP.Port, c.HTTP.PortIndex)
	}
	if c.TCP != nil {
		f.port("/check/tcp", c.TCP.Port, c.TCP.PortIndex)
	}
}

func count(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

func (f *finish) readinessRules() {
	if n := len(f.app.ReadinessChecks); n > 1 {
		f.bad("/readinessChecks", "an app has at most one, not %d", n)
	}
	names := f.app.HostPortNames()
	for i, r := range f.app.ReadinessChecks {
		place := index("/readinessChecks", i)
		if !slices.Contains(names, r.PortName) {
			f.bad(place+"/portName", "no port has the name %q: %s", r.PortName, list(names))
		}
		if r.TimeoutSeconds >= r.IntervalSeconds {
			f.bad(place+"/timeoutSeconds", "%d is not less than the intervalSeconds of %d", r.TimeoutSeconds, r.IntervalSeconds)
		}
	}
}
