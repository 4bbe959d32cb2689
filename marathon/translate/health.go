package translate

import (
	"strings"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

func checks(spec *job.Spec, app *marathon.App) {
	for i, h := range app.HealthChecks {
		if i == 0 {
			spec.HealthCheck = health(app, h)
			continue
		}
		spec.MoreHealthChecks = append(spec.MoreHealthChecks, *health(app, h))
	}
	if app.Check != nil {
		spec.Check = check(app, app.Check)
	}
}

// health is run by the task's executor, whoever Marathon would have run it.
func health(app *marathon.App, h marathon.HealthCheck) *job.HealthCheck {
	to := &job.HealthCheck{
		Check:    times(h.DelaySeconds, h.IntervalSeconds, h.TimeoutSeconds),
		Grace:    some(seconds(h.GracePeriodSeconds)),
		Failures: h.MaxConsecutiveFailures,
	}
	if to.Failures == 0 {
		to.Failures = job.Unlimited
	}
	at := port(app, h.Port, h.PortIndex)
	switch protocol := strings.TrimPrefix(h.Protocol, "MESOS_"); protocol {
	case "COMMAND":
		to.Command = shell(h.Command.Value)
	case "TCP":
		to.TCP = &job.TCPCheck{CheckPort: at}
	default:
		to.HTTP = &job.HTTPCheck{CheckPort: at, Path: absolute(h.Path), TLS: protocol == "HTTPS"}
	}
	return to
}

func check(app *marathon.App, c *marathon.Check) *job.Check {
	to := times(c.DelaySeconds, c.IntervalSeconds, c.TimeoutSeconds)
	switch {
	case c.HTTP != nil:
		to.HTTP = &job.HTTPCheck{CheckPort: port(app, c.HTTP.Port, c.HTTP.PortIndex), Path: absolute(c.HTTP.Path)}
	case c.TCP != nil:
		to.TCP = &job.TCPCheck{CheckPort: port(app, c.TCP.Port, c.TCP.PortIndex)}
	case c.Exec.Command.Shell != "":
		to.Command = shell(c.Exec.Command.Shell)
	default:
		to.Command = c.Exec.Command.Argv
	}
	return &to
}

func times(delay, interval, timeout int) job.Check {
	return job.Check{Delay: seconds(delay), Interval: seconds(interval), Timeout: seconds(timeout)}
}

// absolute is the path as Marathon asks for it.
func absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}

// port is the number that was given, else the port of that index, the first
// where none is named.
func port(app *marathon.App, number, index *int) job.CheckPort {
	if number != nil {
		return job.CheckPort{Port: *number}
	}
	i := 0
	if index != nil {
		i = *index
	}
	if own := inside(app); i < len(own) {
		return job.CheckPort{Port: own[i]}
	}
	return job.CheckPort{Index: i}
}
