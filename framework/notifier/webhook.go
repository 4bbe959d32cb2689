package notifier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"mesos-gpu/framework/notification"
	"mesos-gpu/internal/hostcheck"
)

// Limits of a response. Its body is not kept: it could be that of an internal server.
const (
	maxResponseHeader = 16 << 10
	maxResponseBody   = 64 << 10
)

// webhookClient sends webhooks. It connects to hosts that the operator allows, and follows no redirects. URLs come from
// users: without the checks they could make the scheduler send requests to servers of its own network.
type webhookClient struct {
	settings *Settings
	client   *http.Client
	clock    func() time.Time
}

// newWebhookClient returns a client with the settings, which do not change. timeout limits each request.
func newWebhookClient(s *Settings, timeout time.Duration, clock func() time.Time) *webhookClient {
	transport := &http.Transport{
		// A proxy would resolve the host's name itself, so that its addresses could not be checked.
		Proxy:                  nil,
		DialContext:            hostcheck.Dialer{Timeout: timeout, Check: s.Targets.CheckAddress}.DialContext,
		TLSClientConfig:        s.webhookTLS,
		MaxResponseHeaderBytes: maxResponseHeader,
		MaxIdleConns:           16,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
	}
	return &webhookClient{s, &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, clock}
}

// send delivers a notification. It returns a *permanentError if another attempt is useless.
func (w *webhookClient) send(ctx context.Context, n *notification.Notification) error {
	if err := w.settings.Targets.CheckTarget(n.To); err != nil {
		return &permanentError{err}
	}
	if len(w.settings.secrets) == 0 {
		return &permanentError{errors.New("no secret for webhooks is configured")}
	}
	body, err := notification.WebhookBody(n)
	if err != nil {
		return &permanentError{err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.To, bytes.NewReader(body))
	if err != nil {
		return &permanentError{errors.New("its URL is not valid")}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "mesos-gpu")
	r.Header.Set(notification.IDHeader, n.ID)
	r.Header.Set(notification.AttemptHeader, strconv.Itoa(n.Attempts+1))
	r.Header.Set(notification.SignatureHeader, notification.Sign(w.settings.secrets, w.clock(), body))
	answer, err := w.client.Do(r)
	if err != nil {
		return describeRequestError(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxResponseBody)) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code >= 200 && code <= 299:
		return nil
	case code >= 300 && code <= 399:
		return fmt.Errorf("it answers %d: redirects are not followed", code)
	case code == http.StatusGone:
		return &permanentError{fmt.Errorf("it answers %d", code)}
	default:
		return fmt.Errorf("it answers %d", code)
	}
}

// describeRequestError removes the URL, which may be secret, from the error of a request.
func describeRequestError(err error) error {
	forbidden := (*notification.ForbiddenTargetError)(nil)
	u := (*url.Error)(nil)
	switch {
	case errors.As(err, &forbidden):
		return &permanentError{forbidden}
	case !errors.As(err, &u):
		return err
	case u.Timeout():
		return errors.New("it does not answer in time")
	case errors.As(err, new(*net.DNSError)):
		return errors.New("the name of its host cannot be resolved")
	}
	return u.Err
}

// permanentError is an error that another attempt does not remove.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }
