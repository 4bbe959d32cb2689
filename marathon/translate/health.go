package translate

import (
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

func addChecks(spec *job.Spec, app *marathon.App) {
	for i, h := range app.HealthChecks {
		if i == 0 {
			spec.HealthCheck = translateHealthCheck(app, h)
			continue
		}
		spec.MoreHealthChecks = append(spec.MoreHealthChecks, *translateHealthCheck(app, h))
	}
	if app.Check != nil {
		spec.Check = translateCheck(app, app.Check)
	}
}

// firstProbe is when a check without a delay first runs: a process that has only just started
// would fail it, and be checked again an interval later.
const firstProbe = time.Second

// translateHealthCheck returns a check that the task's executor runs, also for checks that
// Marathon would run itself.
func translateHealthCheck(app *marathon.App, h marathon.HealthCheck) *job.HealthCheck {
	to := &job.HealthCheck{
		Check:    checkTimes(h.DelaySeconds, h.IntervalSeconds, h.TimeoutSeconds),
		Grace:    nonZero(toDuration(h.GracePeriodSeconds)),
		Failures: h.MaxConsecutiveFailures,
	}
	if to.Failures == 0 {
		to.Failures = job.Unlimited
	}
	if !h.UsesDelay() {
		to.Delay = firstProbe
	}
	at := checkPort(app, h.Port, h.PortIndex)
	switch protocol := strings.TrimPrefix(h.Protocol, "MESOS_"); protocol {
	case "COMMAND":
		to.Command = shellCommand(h.Command.Value)
	case "TCP":
		to.TCP = &job.TCPCheck{CheckPort: at}
	default:
		to.HTTP = &job.HTTPCheck{CheckPort: at, Path: absolutePath(h.Path), TLS: protocol == "HTTPS"}
	}
	return to
}

func translateCheck(app *marathon.App, c *marathon.Check) *job.Check {
	to := checkTimes(c.DelaySeconds, c.IntervalSeconds, c.TimeoutSeconds)
	switch {
	case c.HTTP != nil:
		to.HTTP = &job.HTTPCheck{CheckPort: checkPort(app, c.HTTP.Port, c.HTTP.PortIndex), Path: absolutePath(c.HTTP.Path)}
	case c.TCP != nil:
		to.TCP = &job.TCPCheck{CheckPort: checkPort(app, c.TCP.Port, c.TCP.PortIndex)}
	case c.Exec.Command.Shell != "":
		to.Command = shellCommand(c.Exec.Command.Shell)
	default:
		to.Command = c.Exec.Command.Argv
	}
	return &to
}

func checkTimes(delay, interval, timeout int) job.Check {
	return job.Check{Delay: toDuration(delay), Interval: toDuration(interval), Timeout: toDuration(timeout)}
}

// absolutePath adds the slash that Marathon adds.
func absolutePath(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/" + path
}

// checkPort returns the given number, or the port with the given index. The default index
// is 0.
func checkPort(app *marathon.App, number, index *int) job.CheckPort {
	if number != nil {
		return job.CheckPort{Port: *number}
	}
	i := 0
	if index != nil {
		i = *index
	}
	if own := containerPorts(app); i < len(own) {
		return job.CheckPort{Port: own[i]}
	}
	return job.CheckPort{Index: i}
}
