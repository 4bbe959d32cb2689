package executor

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/executor/calls"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpexec"
)

// responseTimeout bounds the wait for the agent's answer to an executor call.
const responseTimeout = 15 * time.Second

// newTransport returns the connection to the agent. mesos-go's own supports
// neither IPv6 nor unix sockets.
func (c *ExecutorConfig) newTransport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     time.Minute,
	}
	if socket := c.Socket; socket != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		}
	}
	return t
}

// newClient returns a client of one of the agent's APIs. It uses protobuf:
// mesos-go's JSON rejects unknown enum values.
func (c *ExecutorConfig) newClient(t http.RoundTripper, path string) *httpcli.Client {
	web := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	options := []httpcli.Opt{
		httpcli.Endpoint(c.agentURL(path)),
		httpcli.Codec(httpcli.DefaultCodec),
		httpcli.Do(web.Do),
	}
	if c.Token != "" {
		options = append(options, httpcli.DefaultHeader("Authorization", "Bearer "+c.Token))
	}
	return httpcli.New(options...)
}

// newExecutorSender sends executor calls with this executor's ids. A call
// without an answer in time fails; the event stream of a SUBSCRIBE may last
// forever.
func (c *ExecutorConfig) newExecutorSender(t http.RoundTripper) calls.Sender {
	if timed, ok := t.(*http.Transport); ok {
		timed = timed.Clone()
		timed.ResponseHeaderTimeout = responseTimeout
		t = timed
	}
	return calls.SenderWith(
		httpexec.NewSender(c.newClient(t, "/api/v1/executor").Send),
		executor.CallOptions{calls.Framework(c.FrameworkID), calls.Executor(c.ExecutorID)}...,
	)
}
