package socket_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"mesos-gpu/isolator/socket"
)

func get(path string) string { return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: agent\r\n\r\n", path) }

// The connection of a client that does not read is closed.
func TestReaderThatTakesNothing(t *testing.T) {
	left := make(chan error, 1)
	d := newTestDaemon(t, func(c *socket.ServerConfig) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.WriteString(w, strings.Repeat("x", 8<<20))
			left <- err
		})
	})
	d.server.SetPatience(brief)
	d.start(t)
	if _, err := io.WriteString(dial(t, d.path), get("/metrics")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-left:
		if err == nil {
			t.Error("8 MiB were taken, it seems")
		}
	case <-time.After(time.Minute):
		t.Error("the answer still waits for its reader")
	}
}

// The timeout of one response does not affect later requests and responses on the same
// connection.
func TestConnectionIsReused(t *testing.T) {
	d := newTestDaemon(t, func(c *socket.ServerConfig) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(brief + brief/5)
			fmt.Fprintln(w, "mesos_gpu_up 1")
		})
	})
	d.server.SetPatience(brief)
	d.start(t)
	c := dial(t, d.path)
	answers := bufio.NewReader(c)
	for _, path := range []string{"/v1/version", "/metrics", "/v1/version"} {
		if _, err := io.WriteString(c, get(path)); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, %v", path, answer.StatusCode, err)
		}
		answer.Body.Close()
		time.Sleep(brief + brief/5)
	}
}

// stream requests a stream and leaves it open.
func stream(t *testing.T, c net.Conn) (status int) {
	t.Helper()
	if _, err := io.WriteString(c, get("/v1/conditions")); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close() // Close would wait for the end of a stream
	}
	return answer.StatusCode
}

// Streams leave connections for other calls on each listener, and the streams of one
// listener do not count on the other.
func TestTooManyStreams(t *testing.T) {
	d := started(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.server.ServeReadOnly(ctx, l) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for network, address := range map[string]string{"unix": d.path, "tcp": l.Addr().String()} {
		connect := func() net.Conn {
			c, err := net.Dial(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			return c
		}
		var streams []net.Conn
		for range socket.MaxStreams {
			c := connect()
			if got := stream(t, c); got != 200 {
				t.Fatalf("%s: stream %d: status %d", network, len(streams)+1, got)
			}
			streams = append(streams, c)
		}
		c := connect()
		if got := stream(t, c); got != 503 {
			t.Errorf("%s: one more: status %d, want 503", network, got)
		}
		if got := say(t, c, get("/metrics")); got != 200 {
			t.Errorf("%s: a scrape: status %d", network, got)
		}
		streams[0].Close()
		end := time.Now().Add(time.Minute)
		for stream(t, c) != 200 { // the server notices the end with a delay
			if time.Now().After(end) {
				t.Fatalf("%s: a free place is not given out", network)
			}
		}
	}
	for range socket.MaxConnections { // more than the TCP limit
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() // before the server stops, which waits for it
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := say(t, c, ""); got != 503 {
		t.Errorf("one connection too many over TCP: status %d, want 503", got)
	}
}
