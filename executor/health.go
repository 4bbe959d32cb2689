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
)

// verdict is what a health check found.
type verdict struct {
	healthy bool
	message string
	// kill says that the task has failed too often.
	kill bool
}

// probe tries the task once. Its error says what is wrong with it.
type probe func(ctx context.Context) error

// probeOf makes the probe that a HealthCheck describes, or says why there is
// none: a task whose check nobody runs would never be found healthy.
func probeOf(h *mesos.HealthCheck, r task.Running) (probe, error) {
	c, ok := r.(task.Probed)
	switch {
	case !ok:
		return nil, errors.New("health_check of a task that nothing can probe: leave it out")
	case h.Type == mesos.HealthCheck_COMMAND && h.Command != nil:
		return commandProbe(c, h.Command), nil
	case h.Type == mesos.HealthCheck_HTTP && h.HTTP != nil:
		return httpProbe(c, h.HTTP)
	case h.Type == mesos.HealthCheck_TCP && h.TCP != nil:
		return tcpProbe(c, h.TCP)
	}
	return nil, fmt.Errorf("health_check of type %s lacks what to check", h.Type)
}

func commandProbe(c task.Probed, command *mesos.CommandInfo) probe {
	argv := []string{"/bin/sh", "-c", command.GetValue()}
	if !command.GetShell() {
		argv = append([]string{command.GetValue()}, command.Arguments...)
	}
	env := environment(command.Environment)
	return func(ctx context.Context) error {
		code, err := c.Exec(ctx, argv, env)
		if err == nil && code != 0 {
			return fmt.Errorf("command exited with status %d", code)
		}
		return err
	}
}

func tcpProbe(c task.Probed, check *mesos.HealthCheck_TCPCheckInfo) (probe, error) {
	address, err := endpoint(c, check.Port)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}, nil
}

// httpProbe asks without checking certificates, as Mesos does: they name the
// service, and the probe knows its address.
func httpProbe(c task.Probed, check *mesos.HealthCheck_HTTPCheckInfo) (probe, error) {
	address, err := endpoint(c, check.Port)
	if err != nil {
		return nil, err
	}
	scheme := check.GetScheme()
	if scheme == "" {
		scheme = "http"
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	transport.Proxy, transport.DisableKeepAlives = nil, true
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+check.GetPath(), nil)
		if err != nil {
			return err
		}
		answer, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		answer.Body.Close()
		if !expected(answer.StatusCode, check.Statuses) {
			return fmt.Errorf("GET %s answered %s", check.GetPath(), answer.Status)
		}
		return nil
	}, nil
}

// expected takes 200 to 399 where the check names no statuses.
func expected(code int, statuses []uint32) bool {
	if len(statuses) == 0 {
		return code >= 200 && code <= 399
	}
	return slices.Contains(statuses, uint32(code))
}

func endpoint(c task.Probed, port uint32) (string, error) {
	host := c.Address()
	if host == "" {
		return "", errors.New("health_check by HTTP or TCP, and the container has no network: use COMMAND")
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), nil
}

// watchHealth probes until ctx ends, and tells each failure, the first
// success and each that follows failures. Failures in the grace period before
// the first success do not count: the task is starting.
func watchHealth(ctx context.Context, h *mesos.HealthCheck, try probe, tell func(verdict)) {
	pause := seconds(h.GetDelaySeconds())
	graceEnds := time.Now().Add(pause + seconds(h.GetGracePeriodSeconds()))
	succeeded, failures := false, uint32(0)
	for {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = seconds(h.GetIntervalSeconds())
		err := once(ctx, try, seconds(h.GetTimeoutSeconds()))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if !succeeded || failures > 0 {
				tell(verdict{healthy: true, message: "healthy"})
			}
			succeeded, failures = true, 0
		case succeeded || time.Now().After(graceEnds):
			failures++
			limit := h.GetConsecutiveFailures()
			tell(verdict{message: fmt.Sprintf("unhealthy, %d times of %d: %s", failures, limit, err), kill: limit > 0 && failures >= limit})
		}
	}
}

func once(ctx context.Context, try probe, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return try(ctx)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// checkHealth has the task's health checked from when it runs until ctx ends.
func (l *loop) checkHealth(ctx context.Context) {
	h := l.info.HealthCheck
	if h == nil {
		return
	}
	tell := func(v verdict) {
		select {
		case l.verdicts <- v:
		case <-ctx.Done():
		}
	}
	l.work.Go(func() {
		select {
		case r := <-l.started:
			if try, err := probeOf(h, r); err != nil {
				tell(verdict{message: err.Error(), kill: true})
			} else {
				watchHealth(ctx, h, try, tell)
			}
		case <-ctx.Done():
		}
	})
}

// verdict passes on how the task is, and ends one that has failed too often.
func (l *loop) verdict(v verdict) {
	if l.phase != running || l.kill != nil {
		return
	}
	l.update(outcome{state: mesos.TASK_RUNNING, message: v.message, healthy: &v.healthy,
		reason: mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED.Enum()})
	if v.kill {
		l.unhealthy = v.message
		l.startKill(l.grace(nil))
	}
}
