package advertise

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// saying answers a SUBSCRIBE with those bytes as the stream.
func saying(t *testing.T, bytes string) Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, bytes)
	}))
	t.Cleanup(server.Close)
	log, _ := newLog()
	return Config{AgentURL: server.URL, StateDir: t.TempDir(), Log: log, BackoffMin: time.Millisecond, BackoffMax: time.Millisecond}
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

// mute is a server that takes connections, says what it is told and then
// never closes them.
func mute(t *testing.T, say string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, say)
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return "http://" + l.Addr().String()
}

func TestAgentThatNeverCloses(t *testing.T) {
	log, warned := newLog()
	d := start(t, Config{
		AgentURL: mute(t, "HTTP/1.1 200 OK\r\n\r\n2\n\x08\x06"), StateDir: t.TempDir(), Log: log,
		BackoffMin: time.Hour, BackoffMax: time.Hour, CloseTimeout: 50 * time.Millisecond,
	}, warned)
	warned.want(t, "agent keeps its side of the connection open")
	warned.want(t, "first event is TEARDOWN")
	d.end(t) // out of an hour's wait
}

func TestAgentThatNeverAnswers(t *testing.T) {
	log, warned := newLog()
	c := Config{
		AgentURL: mute(t, ""), StateDir: t.TempDir(), Log: log,
		BackoffMin: time.Hour, BackoffMax: time.Hour, CloseTimeout: time.Millisecond, AnswerTimeout: 50 * time.Millisecond,
	}
	d := start(t, c, warned)
	warned.want(t, "read answer to SUBSCRIBE: ")
	d.end(t)

	// The end of the context ends the wait for the answer.
	c.AnswerTimeout = time.Hour
	c.AgentURL = mute(t, "HTTP/1.1 200 OK\r\n")
	d = start(t, c, warned)
	d.end(t)
}

func TestInterruptBeforeAnything(t *testing.T) {
	c, err := saying(t, "").withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if s, err := subscribe(ctx, c, stateOf(host(t), "")); err == nil {
		s.close(time.Second)
		t.Error("subscribed after the end")
	}
}
