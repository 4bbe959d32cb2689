package executor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// probeFunc probes the task once. found is the result, nil if the task gave
// none; problem is why a health check counts the probe as failed.
type probeFunc func(ctx context.Context) (found *mesos.CheckStatusInfo, problem error)

// checkAsHealthCheck converts a check to a health check: both have the same
// fields.
func checkAsHealthCheck(c *mesos.CheckInfo) *mesos.HealthCheck {
	h := &mesos.HealthCheck{
		Type:         mesos.HealthCheck_Type(c.Type),
		DelaySeconds: c.DelaySeconds, IntervalSeconds: c.IntervalSeconds, TimeoutSeconds: c.TimeoutSeconds,
	}
	if c.Command != nil {
		h.Command = &c.Command.Command
	}
	if c.HTTP != nil {
		h.HTTP = &mesos.HealthCheck_HTTPCheckInfo{Port: c.HTTP.Port, Path: c.HTTP.Path}
	}
	if c.TCP != nil {
		h.TCP = &mesos.HealthCheck_TCPCheckInfo{Port: c.TCP.Port}
	}
	return h
}

// validateProbe rejects a check that this executor cannot run. It sees only
// the check, not the container. what is "health_check" or "check" and starts
// the error message.
func validateProbe(what string, h *mesos.HealthCheck) error {
	switch {
	case h.Type == mesos.HealthCheck_COMMAND && h.Command.GetValue() != "":
		if h.Command.User != nil {
			return fmt.Errorf("%s's command has user %s, and runs as the task does: leave it out", what, h.Command.GetUser())
		}
		if name := firstSecretVariable(h.Command.Environment); name != "" {
			return fmt.Errorf("variable %s of %s's command is a secret: this executor resolves none, give it a value", name, what)
		}
	case h.Type == mesos.HealthCheck_HTTP && h.HTTP != nil, h.Type == mesos.HealthCheck_TCP && h.TCP != nil:
	default:
		return fmt.Errorf("%s of type %s has no field for that type", what, h.Type)
	}
	return nil
}

// newProbe returns the probe that a check describes. It returns an error if
// the container cannot be probed that way.
func newProbe(h *mesos.HealthCheck, by job.Containerizer, r task.RunningTask) (probeFunc, error) {
	c, ok := r.(task.ProbeTarget)
	if !ok {
		return nil, errors.New("check of a task that its runtime cannot probe: remove it")
	}
	if h.Type == mesos.HealthCheck_COMMAND {
		return commandProbe(c, commandArguments(h.Command, by), plainVariables(h.Command.Environment)), nil
	}
	host := c.ProbeAddress()
	if host == "" {
		return nil, errors.New("check by HTTP or TCP of a container whose network the executor cannot reach: use COMMAND")
	}
	if h.Type == mesos.HealthCheck_HTTP {
		return httpProbe(probeAddress(host, h.HTTP.Port, h.HTTP.GetProtocol()), h.HTTP), nil
	}
	return tcpProbe(probeAddress(host, h.TCP.Port, h.TCP.GetProtocol())), nil
}

// probeAddress returns the address of a port of the task. The loopback address
// depends on the protocol.
func probeAddress(host string, port uint32, protocol mesos.NetworkInfo_Protocol) string {
	if host == "127.0.0.1" && protocol == mesos.IPv6 {
		host = "::1"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// commandArguments returns the whole command line of a check. Mesos containers
// get the program's name as their first argument, the Docker engine adds it
// itself.
func commandArguments(c *mesos.CommandInfo, by job.Containerizer) []string {
	if c.GetShell() {
		return []string{"/bin/sh", "-c", c.GetValue()}
	}
	rest := c.Arguments
	if by == job.Mesos && len(rest) > 0 {
		rest = rest[1:]
	}
	return append([]string{c.GetValue()}, rest...)
}

func commandProbe(c task.ProbeTarget, argv []string, env map[string]string) probeFunc {
	return func(ctx context.Context) (*mesos.CheckStatusInfo, error) {
		code, err := c.ExecProbe(ctx, argv, env)
		if err != nil {
			return nil, err
		}
		if code != 0 {
			err = fmt.Errorf("command exited with status %d", code)
		}
		status := int32(code)
		return &mesos.CheckStatusInfo{Type: mesos.CheckInfo_COMMAND.Enum(), Command: &mesos.CheckStatusInfo_Command{ExitCode: &status}}, err
	}
}

// tcpProbe reports whether a process listens at the address. A connection that
// takes too long is no result.
func tcpProbe(address string) probeFunc {
	return func(ctx context.Context) (*mesos.CheckStatusInfo, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		if ctx.Err() != nil {
			return nil, err
		}
		ok := err == nil
		return &mesos.CheckStatusInfo{Type: mesos.CheckInfo_TCP.Enum(), TCP: &mesos.CheckStatusInfo_Tcp{Succeeded: &ok}}, err
	}
}

// httpProbe ignores certificates, as Mesos does: they are issued for the
// service's name, and the probe has only an address. It does not follow
// redirects: their status is the result, and their target may be another host.
func httpProbe(address string, check *mesos.HealthCheck_HTTPCheckInfo) probeFunc {
	scheme := check.GetScheme()
	if scheme == "" {
		scheme = "http"
	}
	url := scheme + "://" + address + check.GetPath()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	transport.Proxy, transport.DisableKeepAlives = nil, true
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return func(ctx context.Context) (*mesos.CheckStatusInfo, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		answer, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		answer.Body.Close()
		if !isExpectedStatus(answer.StatusCode, check.Statuses) {
			err = fmt.Errorf("GET %s answered %s", check.GetPath(), answer.Status)
		}
		code := uint32(answer.StatusCode)
		return &mesos.CheckStatusInfo{Type: mesos.CheckInfo_HTTP.Enum(), HTTP: &mesos.CheckStatusInfo_Http{StatusCode: &code}}, err
	}
}

// isExpectedStatus accepts 200 to 399 if the check lists no statuses.
func isExpectedStatus(code int, statuses []uint32) bool {
	if len(statuses) == 0 {
		return code >= 200 && code <= 399
	}
	return slices.Contains(statuses, uint32(code))
}

// repeatProbe probes after the check's delay and then at its interval, and
// passes each result to report until ctx ends. A probe that did not reach the
// task is ignored.
func repeatProbe(ctx context.Context, h *mesos.HealthCheck, try probeFunc, report func(found *mesos.CheckStatusInfo, problem error)) {
	pause := secondsDuration(h.GetDelaySeconds())
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = secondsDuration(h.GetIntervalSeconds())
		found, problem := probeOnce(ctx, try, secondsDuration(h.GetTimeoutSeconds()))
		if ctx.Err() != nil {
			return
		}
		if !errors.Is(problem, task.ErrNotReached) {
			report(found, problem)
		}
	}
}

func probeOnce(ctx context.Context, try probeFunc, timeout time.Duration) (*mesos.CheckStatusInfo, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return try(ctx)
}

func secondsDuration(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
