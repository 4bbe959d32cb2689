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

// probeFunc tries the task once. found is its answer, nil where it gave none;
// problem says what a health check has against it.
type probeFunc func(ctx context.Context) (found *mesos.CheckStatusInfo, problem error)

// checkAsHealthCheck gives a check the words of a health check: they ask the same.
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

// validateProbe says what keeps a task from being probed so, as far as the check
// alone tells. what is "health_check" or "check".
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
		return fmt.Errorf("%s of type %s lacks what to check", what, h.Type)
	}
	return nil
}

// newProbe makes the probe that a check describes, or says why there is none.
func newProbe(h *mesos.HealthCheck, by job.Containerizer, r task.RunningTask) (probeFunc, error) {
	c, ok := r.(task.ProbeTarget)
	if !ok {
		return nil, errors.New("check of a task that nothing can probe: leave it out")
	}
	if h.Type == mesos.HealthCheck_COMMAND {
		return commandProbe(c, commandArguments(h.Command, by), plainVariables(h.Command.Environment)), nil
	}
	host := c.ProbeAddress()
	if host == "" {
		return nil, errors.New("check by HTTP or TCP, and the container has no network that its executor can reach: use COMMAND")
	}
	if h.Type == mesos.HealthCheck_HTTP {
		return httpProbe(probeAddress(host, h.HTTP.Port, h.HTTP.GetProtocol()), h.HTTP), nil
	}
	return tcpProbe(probeAddress(host, h.TCP.Port, h.TCP.GetProtocol())), nil
}

// probeAddress is a port of the task, whose loopback has two addresses.
func probeAddress(host string, port uint32, protocol mesos.NetworkInfo_Protocol) string {
	if host == "127.0.0.1" && protocol == mesos.IPv6 {
		host = "::1"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// commandArguments is a check's whole command line. Mesos's own containers are told
// the program's name as their first argument, the Docker engine is not.
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

// tcpProbe finds whether somebody listens, but nothing where a connection
// takes too long.
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

// httpProbe asks without checking certificates, as Mesos does: they name the
// service, and the probe knows its address.
func httpProbe(address string, check *mesos.HealthCheck_HTTPCheckInfo) probeFunc {
	scheme := check.GetScheme()
	if scheme == "" {
		scheme = "http"
	}
	url := scheme + "://" + address + check.GetPath()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	transport.Proxy, transport.DisableKeepAlives = nil, true
	return func(ctx context.Context) (*mesos.CheckStatusInfo, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		answer, err := (&http.Client{Transport: transport}).Do(req)
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

// isExpectedStatus takes 200 to 399 where the check names no statuses.
func isExpectedStatus(code int, statuses []uint32) bool {
	if len(statuses) == 0 {
		return code >= 200 && code <= 399
	}
	return slices.Contains(statuses, uint32(code))
}

// repeatProbe probes after the check's delay and then at its interval, and hands on
// each answer, until ctx ends. A try that could not ask the task says nothing
// of it.
func repeatProbe(ctx context.Context, h *mesos.HealthCheck, try probeFunc, hear func(found *mesos.CheckStatusInfo, problem error)) {
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
			hear(found, problem)
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
