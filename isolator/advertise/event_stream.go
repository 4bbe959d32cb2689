package advertise

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gogo/protobuf/proto"

	rp "mesos-gpu/internal/resourceprovider"
)

const (
	protobufType   = "application/x-protobuf"
	headerStreamID = "Mesos-Stream-Id"
	maxEventBytes  = 64 << 20
	maxErrorBytes  = 4 << 10
	dialTimeout    = 10 * time.Second
)

// providerStream is a subscription on its own TCP connection. net/http's
// client does not report when the agent has noticed the end of a connection,
// and a provider must not reconnect earlier.
type providerStream struct {
	conn net.Conn
	// body has the events, after the response's header.
	body *bufio.Reader
	// id is the Mesos-Stream-Id of the response, which later calls carry.
	id string

	mu sync.Mutex
	// ending is set by close. interrupt then leaves the deadline of conn as it
	// is.
	ending bool
}

// openSubscription posts the SUBSCRIBE call and returns after the agent has
// answered 200. ctx ends the wait.
func openSubscription(ctx context.Context, c ProviderConfig, call *rp.ProviderCall) (*providerStream, error) {
	request, err := c.newRequest(ctx, call)
	if err != nil {
		return nil, err
	}
	conn, err := dialAgent(ctx, request.URL, c.TLS)
	if err != nil {
		return nil, err
	}
	s := &providerStream{conn: conn}
	stop := context.AfterFunc(ctx, s.interrupt)
	defer stop()
	if err := s.sendSubscribe(request, time.Now().Add(c.AnswerTimeout)); err != nil {
		s.close(ctx, c)
		return nil, err
	}
	return s, nil
}

func dialAgent(ctx context.Context, u *url.URL, config *tls.Config) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialTimeout}
	port := u.Port()
	if u.Scheme != "https" {
		if port == "" {
			port = "80"
		}
		return plain.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	}
	if port == "" {
		port = "443"
	}
	secure := &tls.Dialer{NetDialer: plain, Config: config}
	return secure.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
}

func (s *providerStream) sendSubscribe(request *http.Request, deadline time.Time) error {
	if err := s.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if err := request.Context().Err(); err != nil {
		return err // interrupt was called before SetDeadline
	}
	if err := request.Write(s.conn); err != nil {
		return fmt.Errorf("send SUBSCRIBE: %w", err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(s.conn), request)
	if err != nil {
		return fmt.Errorf("read answer to SUBSCRIBE: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return refusalError(rp.CallSubscribe.String(), answer)
	}
	s.id = answer.Header.Get(headerStreamID)
	s.body = bufio.NewReader(answer.Body)
	return nil
}

// nextEvent reads one RecordIO frame. A zero deadline waits forever: the API
// has no heartbeats, so a silent agent is normal, and TCP keep-alive detects a
// dead one.
func (s *providerStream) nextEvent(ctx context.Context, deadline time.Time) (*rp.ProviderEvent, error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // interrupt was called before SetReadDeadline
	}
	line, err := s.body.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the agent closed the connection")
	}
	if err != nil {
		return nil, fmt.Errorf("read event: %w", err)
	}
	size, err := strconv.ParseUint(strings.TrimSpace(string(line)), 10, 64)
	if err != nil || size > maxEventBytes {
		return nil, fmt.Errorf("read event: length %.32q is no number up to %d", line, maxEventBytes)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(s.body, frame); err != nil {
		return nil, fmt.Errorf("read event of %d bytes: %w", size, err)
	}
	event := new(rp.ProviderEvent)
	if err := proto.Unmarshal(frame, event); err != nil {
		return nil, fmt.Errorf("parse event of %d bytes: %w", size, err)
	}
	return event, nil
}

// interrupt ends a read in progress.
func (s *providerStream) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ending {
		_ = s.conn.SetDeadline(time.Unix(1, 0))
	}
}

// close closes this side and waits until the agent has closed its side: an
// agent that hangs would find two connections when it continues, and abort.
// After ctx has ended there is no next connection, and the wait is bounded by
// closeTimeout.
func (s *providerStream) close(ctx context.Context, c ProviderConfig) {
	s.mu.Lock()
	s.ending = true
	_ = s.conn.SetDeadline(time.Now().Add(c.closeTimeout))
	s.mu.Unlock()
	defer s.conn.Close()
	if half, ok := s.conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return // the connection is already closed
	}
	for {
		_, err := io.Copy(io.Discard, s.conn)
		if late := net.Error(nil); !errors.As(err, &late) || !late.Timeout() {
			return
		}
		c.Log.WithField("agent", c.AgentURL).Warn("agent keeps its side of the connection open; GPUs stay out of the offers until it closes it")
		if ctx.Err() != nil {
			return
		}
		_ = s.conn.SetDeadline(time.Now().Add(c.closeTimeout))
	}
}

// newRequest returns the POST request of one call.
func (c ProviderConfig) newRequest(ctx context.Context, call *rp.ProviderCall) (*http.Request, error) {
	body, err := proto.Marshal(call)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", call.Type, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(c.AgentURL, "/")+rp.Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	c.setHeaders(request)
	return request, nil
}

// setHeaders sets the content type and the authorization.
func (c ProviderConfig) setHeaders(request *http.Request) {
	request.Header.Set("Content-Type", protobufType)
	request.Header.Set("Accept", protobufType)
	if c.Authorization != "" {
		request.Header.Set("Authorization", c.Authorization)
	}
}

// postCall makes any call except SUBSCRIBE.
func (c ProviderConfig) postCall(ctx context.Context, client *http.Client, streamID string, call *rp.ProviderCall) error {
	ctx, cancel := context.WithTimeout(ctx, c.AnswerTimeout)
	defer cancel()
	request, err := c.newRequest(ctx, call)
	if err != nil {
		return err
	}
	request.Header.Set(headerStreamID, streamID)
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("send %s: %w", call.Type, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		return refusalError(call.Type.String(), answer)
	}
	return nil
}

func refusalError(call string, answer *http.Response) error {
	reason, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes))
	hint := ""
	if answer.StatusCode == http.StatusNotFound {
		hint = "; the agent's URL ends in /slave(1), and the API is there once the agent has registered"
	}
	return fmt.Errorf("the agent answers %s with %s: %s%s", call, answer.Status, strings.TrimSpace(string(reason)), hint)
}
