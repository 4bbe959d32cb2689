package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// rotated is the log of a task that has ended, or of one that writes on.
type rotated struct {
	api.Backend // whose other methods nobody calls
	mu          sync.Mutex
	files       map[string]string
	state       job.State
	read        func() // before each read
}

func (r *rotated) AsOf() time.Time { return time.Time{} }

func (r *rotated) Task(context.Context, string) (job.Task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return job.Task{ID: "t", AgentID: "a", State: r.state, Started: time.Now()}, nil
}

func (r *rotated) ReadLog(_ context.Context, _ job.Task, file string, offset, length uint64) ([]byte, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read()
	text, ok := r.files[file]
	if !ok {
		return nil, 0, api.ErrNoLog
	}
	from := min(int(offset), len(text))
	return []byte(text[from:min(from+int(length), from+300, len(text))]), uint64(len(text)), nil
}

// rotate begins a new file.
func (r *rotated) rotate(text string) {
	for i := 4; i > 0; i-- {
		if old, ok := r.files[fmt.Sprintf("stdout.%d", i)]; ok && i < 4 {
			r.files[fmt.Sprintf("stdout.%d", i+1)] = old
		}
	}
	r.files["stdout.1"], r.files["stdout"] = r.files["stdout"], text
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func (r *rotated) serve(t *testing.T, wrap func(http.Handler) http.Handler) *Client {
	log := logrus.New()
	log.SetOutput(io.Discard)
	h := wrap(api.Handler(func() api.Backend { return r }, log))
	return dial(t, h.ServeHTTP)
}

func plain(h http.Handler) http.Handler { return h }

func readLog(t *testing.T, c *Client, o LogOptions) string {
	t.Helper()
	body, err := c.Log(context.Background(), "t", o)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOldestFileComesFirst: nothing of a log is hidden, and asking without our
// client gets as much.
func TestOldestFileComesFirst(t *testing.T) {
	r := &rotated{state: job.Finished, read: func() {}, files: map[string]string{"stdout.2": lines(0, 100), "stdout.1": lines(100, 200), "stdout": lines(200, 210)}}
	c := r.serve(t, plain)
	if got := readLog(t, c, LogOptions{}); got != lines(0, 210) {
		t.Errorf("got %d bytes, want %d", len(got), len(lines(0, 210)))
	}
	res, err := http.Get(c.bases[0] + "/v1/tasks/t/log")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != lines(0, 210) {
		t.Errorf("without the client: %d bytes, %v", len(got), err)
	}
}

// cut breaks an answer off after so many bytes.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cut) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// TestFollowedThroughRotation: the file is rotated while it is followed, and
// while the connection is down.
func TestFollowedThroughRotation(t *testing.T) {
	r := &rotated{state: job.Running, files: map[string]string{"stdout": lines(0, 100)}}
	reads, wrote := 0, 100
	r.read = func() {
		if reads++; reads%7 != 0 || r.state != job.Running {
			return
		}
		if r.rotate(lines(wrote, wrote+100)); wrote >= 600 {
			r.state = job.Finished
		}
		wrote += 100
	}
	answers := 0
	c := r.serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if answers++; answers%2 == 1 {
				w = &cut{w, 700}
			}
			h.ServeHTTP(w, q)
		})
	})
	missed := 0
	got := readLog(t, c, LogOptions{Follow: true, Missed: func() { missed++ }})
	if want := lines(0, wrote); got != want || missed > 0 || answers < 4 {
		t.Errorf("got %d bytes of %d in %d answers, missed %d times", len(got), len(want), answers, missed)
	}
}

// TestMissedOutputIsTold: files that went before they were read.
func TestMissedOutputIsTold(t *testing.T) {
	r := &rotated{state: job.Running, files: map[string]string{"stdout": lines(0, 10)}}
	reads := 0
	r.read = func() {
		if reads++; reads == 8 {
			r.files = map[string]string{"stdout.2": lines(500, 510), "stdout.1": lines(510, 520), "stdout": lines(520, 530)}
			r.state = job.Finished
		}
	}
	missed := 0
	got := readLog(t, r.serve(t, plain), LogOptions{Follow: true, Missed: func() { missed++ }})
	if want := lines(0, 10) + lines(500, 530); got != want || missed != 1 {
		t.Errorf("missed %d times, got %q", missed, got)
	}
	// Who cannot be told gets a broken answer rather than half a log.
	r.files, r.state, reads = map[string]string{"stdout": lines(0, 10)}, job.Running, 0
	res, err := http.Get(r.serve(t, plain).bases[0] + "/v1/tasks/t/log?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without the client: %v", err)
	}
}
