package apiserver

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
)

// Listen opens the API's port. Its error is one line with a hint how to solve it.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: another program, or another scheduler, has the port: stop it, or choose another address for the API", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for the API: %w", err)
	}
	return l, nil
}

// maxHTTP2Streams limits the concurrent requests of one connection.
const maxHTTP2Streams = 32

// shutdownTimeout limits how long active requests may take during shutdown.
const shutdownTimeout = 3 * time.Second

// Serve serves requests on l until ctx ends. It returns after its goroutines have ended. It
// reports the states of connections to onState, such as LimitedListener.TrackState.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log logrus.FieldLogger, onState ...func(net.Conn, http.ConnState)) error {
	var requests sync.WaitGroup
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			defer requests.Done()
			h.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute, // masters and agents may take 30 s to answer; streams extend their deadlines
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    256 << 10, // the URL contains a command's arguments
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       withPeer,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams},
		ErrorLog:          stdlog.New(connectionLog{log}, "", 0),
	}
	if len(onState) > 0 {
		s.ConnState = onState[0]
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the API on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	// Streams end with ctx, because the contexts of their requests derive from it.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.Shutdown(end); err != nil {
		_ = s.Close() // some client did not disconnect in time
	}
	<-failed
	// The server does not track connections that became WebSockets.
	answered := make(chan struct{})
	go func() {
		requests.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-end.Done():
	}
	return nil
}

// connectionLog logs net/http's errors about connections, such as failed TLS handshakes.
type connectionLog struct{ log logrus.FieldLogger }

func (c connectionLog) Write(line []byte) (int, error) {
	c.log.Warn(strings.TrimSpace(string(line)))
	return len(line), nil
}
