package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"mesos-gpu/framework/api"
)

const (
	// maxProblem limits how much of an error response is read, in bytes.
	maxProblem = 64 << 10
	// maxRedirects limits the redirects of a request.
	maxRedirects = 3

	// Delays between retries double from minRetryDelay up to maxRetryDelay.
	minRetryDelay, maxRetryDelay = 200 * time.Millisecond, 5 * time.Second
)

// retryDelay returns the delay after so many consecutive failures.
func retryDelay(tries int) time.Duration { return min(minRetryDelay<<min(tries, 10), maxRetryDelay) }

// sleepContext sleeps for d. It returns the cause if ctx ends first.
func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendRequest sends a request to one scheduler after the other, and repeats that while a
// new leader takes over. It retries a request that is not idempotent only if it was
// certainly not executed, or has an idempotency key. It returns a *Problem if a
// scheduler responded with one.
func (c *Client) sendRequest(ctx context.Context, method, path string, body any) (*http.Response, error) {
	return c.sendWithin(ctx, c.timeouts.Leader, method, path, body)
}

// sendWithin is sendRequest that retries for limit; 0 tries each scheduler once.
func (c *Client) sendWithin(ctx context.Context, limit time.Duration, method, path string, body any) (*http.Response, error) {
	return c.sendWith(ctx, limit, method, path, body, nil)
}

// requestBody is the body of a request, which may be sent several times.
type requestBody struct {
	// open returns a new reader of the whole body for each time that it is sent.
	open func() io.Reader
	// size is its length in bytes, -1 if it is not known.
	size        int64
	contentType string
}

// sendWith is sendWithin with additional headers. It sends body as JSON, unless that is nil.
func (c *Client) sendWith(ctx context.Context, limit time.Duration, method, path string, body any, header http.Header) (*http.Response, error) {
	if body == nil {
		return c.sendBody(ctx, limit, method, path, nil, header)
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	sent := &requestBody{func() io.Reader { return bytes.NewReader(data) }, int64(len(data)), "application/json"}
	return c.sendBody(ctx, limit, method, path, sent, header)
}

// sendBody sends a request to one scheduler after the other, as sendRequest describes, in rounds until limit has passed.
// After each round it knows whether waiting is useful: a scheduler has reported that there is no leader, or a request with
// an idempotency key may have been executed, so that only its repetition shows the result.
func (c *Client) sendBody(ctx context.Context, limit time.Duration, method, path string, body *requestBody, header http.Header) (*http.Response, error) {
	keyed := header.Get(api.IdempotencyKey) != ""
	began, open := time.Now(), false // open: the request may have been executed
	for round := 0; ; round++ {
		leaderless, refused := error(nil), error(nil)
		for range c.baseURLs {
			i, base := c.currentBase()
			res, err := c.sendOnce(ctx, method, base+path, body, header)
			if err == nil {
				return res, nil
			}
			lost := keyed && outcomeUnknown(err)
			if ctx.Err() != nil || !lost && !canRepeat(method, header, err) {
				return nil, err
			}
			open = open || lost
			if isRetryable(err) || lost {
				leaderless = err
			} else {
				refused = err
			}
			c.switchBase(i)
		}
		if leaderless == nil && !open {
			return nil, refused
		}
		if time.Since(began) >= limit {
			return nil, cmp.Or(leaderless, refused)
		}
		if err := sleepContext(ctx, retryDelay(round)); err != nil {
			return nil, err
		}
	}
}

// currentBase returns the base URL to try next and its index.
func (c *Client) currentBase() (int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastIndex, c.baseURLs[c.lastIndex]
}

// switchBase selects the next base, unless another goroutine already has.
func (c *Client) switchBase(from int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastIndex == from {
		c.lastIndex = (from + 1) % len(c.baseURLs)
	}
}

// isRetryable reports whether a scheduler has answered that the same request may succeed later.
func isRetryable(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Retryable
}

// canRepeat reports whether the request may be retried: it was not executed, or it is
// idempotent. A request that upgrades the connection runs a command, so it is not.
func canRepeat(method string, header http.Header, err error) bool {
	var p *api.Problem
	if errors.As(err, &p) {
		return p.Retryable
	}
	return method != http.MethodPost && header.Get("Upgrade") == "" || neverConnected(err)
}

// neverConnected reports whether the request did not reach a scheduler.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// outcomeUnknown reports whether the request may have been executed: the response was
// lost, or reports that the scheduler does not know.
func outcomeUnknown(err error) bool {
	var p *api.Problem
	if errors.As(err, &p) {
		return !p.Retryable && p.Status >= http.StatusBadGateway && p.Status <= http.StatusGatewayTimeout
	}
	return !neverConnected(err)
}

// IsTemporary reports whether an error may be temporary: no scheduler responded, or it
// responded with an internal error.
func IsTemporary(err error) bool {
	var p *api.Problem
	return !errors.As(err, &p) || p.Retryable || p.Status >= http.StatusInternalServerError
}

// sendOnce sends a request and follows redirects from standbys to the leader.
func (c *Client) sendOnce(ctx context.Context, method, url string, body *requestBody, header http.Header) (*http.Response, error) {
	for hop := 0; ; hop++ {
		res, err := c.sendTo(ctx, method, url, body, header)
		if hop > 0 && neverConnected(err) {
			return nil, api.NewUnavailable("the leader does not answer: %v", err)
		}
		if err != nil {
			return nil, err
		}
		if res.StatusCode < 300 {
			return res, nil
		}
		to, lost := res.Location()
		if res.StatusCode != http.StatusTemporaryRedirect || lost != nil || hop == maxRedirects {
			return nil, readProblem(res, url)
		}
		_ = res.Body.Close() // it only repeats the header
		url = to.String()
	}
}

// sendTo sends one request to one address.
func (c *Client) sendTo(ctx context.Context, method, url string, body *requestBody, header http.Header) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		content = body.open()
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(req.Header, header)
	if body != nil {
		req.ContentLength = body.size
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body.open()), nil }
		req.Header.Set("Content-Type", body.contentType)
	}
	if err := c.addToken(req); err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &NoListenerError{Addresses: c.addresses(), err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("ask the scheduler: %w", err)
	}
	return res, nil
}

// readProblem returns the problem of an error response. A response of another program becomes one with its status.
func readProblem(res *http.Response, url string) error {
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem)) // a partial body is enough
	p := api.Problem{}
	if json.Unmarshal(body, &p) != nil || p.Status == 0 {
		if res.StatusCode == http.StatusNotFound { // the API describes each unknown object by a problem
			body = []byte("it is no mesos-gpu scheduler, or one of another version")
		}
		p = api.Problem{
			Title:  http.StatusText(res.StatusCode),
			Status: res.StatusCode,
			Detail: fmt.Sprintf("%s answered %s: %s", url, res.Status, strings.TrimSpace(string(body))),
		}
	}
	return &p
}

// RetryTemporary calls f until it succeeds, fails with a permanent error, or Timeouts.Follow
// has passed. Failures and the success after them are reported as those of a stream.
func (c *Client) RetryTemporary(ctx context.Context, f func() error) error {
	began := time.Now()
	for tries := 0; ; tries++ {
		err := f()
		if err == nil && tries > 0 {
			c.connection.recordSuccess()
		}
		if err == nil || !IsTemporary(err) || time.Since(began) > c.timeouts.Follow {
			return err
		}
		c.connection.recordFailure(err)
		if err := sleepContext(ctx, retryDelay(tries)); err != nil {
			return err
		}
	}
}
