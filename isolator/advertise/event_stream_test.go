package advertise

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rp "mesos-gpu/internal/resourceprovider"
)

// saying returns a provider whose agent answers SUBSCRIBE with those bytes as the event
// stream.
func saying(t *testing.T, bytes string) ProviderConfig {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == operatorPath {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, bytes)
	}))
	t.Cleanup(server.Close)
	log, _ := newLog()
	return ProviderConfig{AgentURL: server.URL, StateDir: t.TempDir(), Log: log, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond}
}

func TestBrokenStreams(t *testing.T) {
	cases := []struct{ name, bytes, want string }{
		{"nothing", "", "the agent closed the connection"},
		{"no length", "hello\n", `length "hello\n" is no number up to`},
		{"negative", "-1\n", `length "-1\n" is no number up to`},
		{"too long", "999999999999\n", `length "999999999999\n" is no number up to 67108864`},
		{"no end of length", string(make([]byte, 10000)), "read event: bufio: buffer full"},
		{"torn", "10\nabc", "read event of 10 bytes: unexpected EOF"},
		{"no message", "3\n\xff\xff\xff", "parse event of 3 bytes"},
		{"another event first", "2\n\x08\x06", "first event is TEARDOWN, want SUBSCRIBED"},
		{"empty id", "8\n\x08\x01\x12\x04\x0a\x02\x0a\x00", `the agent subscribed provider "", asked for was ""`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config := saying(t, c.bytes)
			log, warned := newLog()
			config.Log = log
			d := start(t, config, warned)
			warned.want(t, c.want)
			d.end(t)
		})
	}
}

// mute is a server that accepts subscriptions, sends say and never closes
// them. It returns the number of connections, and has no operator API.
func mute(t *testing.T, say string) (url string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	connections = new(atomic.Int32)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			if !strings.Contains(line, rp.Path) {
				_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
				conn.Close()
				continue
			}
			connections.Add(1)
			_, _ = io.WriteString(conn, say)
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return "http://" + l.Addr().String(), connections
}

// Until the agent has closed the first connection, no second one comes.
func TestAgentThatNeverCloses(t *testing.T) {
	for name, answer := range map[string]string{"after its answer": "HTTP/1.1 200 OK\r\n\r\n2\n\x08\x06", "without answer": ""} {
		t.Run(name, func(t *testing.T) {
			log, warned := newLog()
			url, connections := mute(t, answer)
			d := start(t, ProviderConfig{
				AgentURL: url, StateDir: t.TempDir(), Log: log, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond,
				closeTimeout: 20 * time.Millisecond, AnswerTimeout: 20 * time.Millisecond,
			}, warned)
			for range 5 {
				warned.want(t, "agent keeps its side of the connection open")
			}
			if n := connections.Load(); n != 1 {
				t.Errorf("%d connections, want 1", n)
			}
			d.end(t)
		})
	}
}

func TestAgentThatNeverAnswers(t *testing.T) {
	log, warned := newLog()
	url, _ := mute(t, "HTTP/1.1 200 OK\r\n")
	d := start(t, ProviderConfig{
		AgentURL: url, StateDir: t.TempDir(), Log: log, closeTimeout: time.Millisecond, AnswerTimeout: time.Hour,
	}, warned)
	d.end(t) // the end of the context ends the wait
}

func TestInterruptBeforeSubscribe(t *testing.T) {
	c, err := saying(t, "").withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if s, err := openSubscription(ctx, c, &rp.ProviderCall{Type: rp.CallSubscribe}); err == nil {
		s.close(ctx, c)
		t.Error("subscribed after the end")
	}
}
