package master

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	protobufType = "application/x-protobuf"
	streamHeader = "Mesos-Stream-Id"
	// maxAnswerBytes bounds the answer to an operator call. The agents of the
	// largest known clusters with their inventories need a tenth of it.
	maxAnswerBytes = 256 << 20
)

// newTransport returns the connections of one session. The subscription needs
// one of its own: Mesos uses HTTP/1.1, with one request at a time on each
// connection.
func (c *ConnectionConfig) newTransport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	dialer := net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       c.tls,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: c.callTimeout,
		MaxIdleConnsPerHost:   maxConcurrentCalls + 1,
		IdleConnTimeout:       time.Minute,
	}
}

// newHTTPClient follows no redirects: the detector finds the leader.
func (c *ConnectionConfig) newHTTPClient() *http.Client {
	return &http.Client{
		Transport:     c.newTransport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// protoMarshaler and protoUnmarshaler are mesos-go's messages.
type (
	protoMarshaler   interface{ Marshal() ([]byte, error) }
	protoUnmarshaler interface{ Unmarshal([]byte) error }
)

// postCall posts a message. It returns the response if its status is 200 or
// 202. Otherwise the error wraps *statusError, or says why there is no
// response.
func (c *ConnectionConfig) postCall(ctx context.Context, client *http.Client, url, stream string, message protoMarshaler) (*http.Response, error) {
	return c.postMessage(ctx, client, url, message, func(h http.Header) {
		h.Set("Accept", protobufType)
		if stream != "" {
			h.Set(streamHeader, stream)
		}
	})
}

// postMessage posts a message with additional headers.
func (c *ConnectionConfig) postMessage(
	ctx context.Context, client *http.Client, url string, message protoMarshaler, headers func(http.Header),
) (*http.Response, error) {
	body, err := message.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", protobufType)
	headers(req.Header)
	c.Credential.setAuthorization(req)
	began := time.Now()
	res, err := client.Do(req)
	if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		defer res.Body.Close()
		err = c.addAdvice(readStatusError(res))
	}
	c.observeCall(message, time.Since(began), err)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// callAndDecode posts a message and decodes the message of the response.
func (c *ConnectionConfig) callAndDecode(ctx context.Context, client *http.Client, url string, message protoMarshaler, into protoUnmarshaler) error {
	ctx, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	res, err := c.postCall(ctx, client, url, "", message)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := readAnswer(res.Body)
	if err != nil {
		return err
	}
	if err := into.Unmarshal(body); err != nil {
		return fmt.Errorf("decode answer of %d bytes: %w", len(body), err)
	}
	return nil
}

// readAnswer reads the body of a response, which has at most maxAnswerBytes.
func readAnswer(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxAnswerBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", err)
	case len(body) > maxAnswerBytes:
		return nil, fmt.Errorf("answer is longer than %d MiB", maxAnswerBytes>>20)
	}
	return body, nil
}
