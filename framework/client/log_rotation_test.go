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

	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/job"
)

// rotatingBackend has the log of a task that has ended or is still writing.
type rotatingBackend struct {
	backendtest.Reads // the test calls only the methods below
	backendtest.Commands
	mu    sync.Mutex
	files map[string]string
	state job.State
	read  func() // called before each read
}

func (r *rotatingBackend) AsOf() time.Time { return time.Time{} }

func (r *rotatingBackend) GetTask(context.Context, string) (job.Task, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return job.Task{ID: "t", AgentID: "a", State: r.state, Started: time.Now()}, nil
}

func (r *rotatingBackend) ReadTaskLog(_ context.Context, _ job.Task, file string, offset, length uint64) ([]byte, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read()
	text, ok := r.files[file]
	if !ok {
		return nil, 0, request.ErrNoLog
	}
	from := min(int(offset), len(text))
	return []byte(text[from:min(from+int(length), from+300, len(text))]), uint64(len(text)), nil
}

// rotateFile starts a new file.
func (r *rotatingBackend) rotateFile(text string) {
	for i := 4; i > 0; i-- {
		if old, ok := r.files[fmt.Sprintf("stdout.%d", i)]; ok && i < 4 {
			r.files[fmt.Sprintf("stdout.%d", i+1)] = old
		}
	}
	r.files["stdout.1"], r.files["stdout"] = r.files["stdout"], text
}

func numberedLines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func (r *rotatingBackend) serveLog(t *testing.T, wrap func(http.Handler) http.Handler) *Client {
	log := logrus.New()
	log.SetOutput(io.Discard)
	h := wrap(apiserver.NewHandler(func() apiserver.Backend { return backendtest.NewLeader(r) }, log))
	return newTestClient(t, h.ServeHTTP)
}

func passThrough(h http.Handler) http.Handler { return h }

func readLog(t *testing.T, c *Client, o LogOptions) string {
	t.Helper()
	body, err := c.OpenTaskLog(context.Background(), "t", o)
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

// TestLogStartsWithOldestFile checks that the whole log is returned, also to other clients.
func TestLogStartsWithOldestFile(t *testing.T) {
	r := &rotatingBackend{
		state: job.Finished,
		read:  func() {},
		files: map[string]string{"stdout.2": numberedLines(0, 100), "stdout.1": numberedLines(100, 200), "stdout": numberedLines(200, 210)},
	}
	c := r.serveLog(t, passThrough)
	if got := readLog(t, c, LogOptions{}); got != numberedLines(0, 210) {
		t.Errorf("got %d bytes, want %d", len(got), len(numberedLines(0, 210)))
	}
	res, err := http.Get(c.baseURLs[0] + "/v1/tasks/t/log")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got, err := io.ReadAll(res.Body); err != nil || string(got) != numberedLines(0, 210) {
		t.Errorf("without the client: %d bytes, %v", len(got), err)
	}
}

// cuttingWriter aborts a response after so many bytes.
type cuttingWriter struct {
	http.ResponseWriter
	left int
}

func (c *cuttingWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *cuttingWriter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

// TestFollowedLogSurvivesRotation rotates the file while it is followed and while the
// connection is broken.
func TestFollowedLogSurvivesRotation(t *testing.T) {
	r := &rotatingBackend{state: job.Running, files: map[string]string{"stdout": numberedLines(0, 100)}}
	reads, wrote := 0, 100
	r.read = func() {
		if reads++; reads%7 != 0 || r.state != job.Running {
			return
		}
		if r.rotateFile(numberedLines(wrote, wrote+100)); wrote >= 600 {
			r.state = job.Finished
		}
		wrote += 100
	}
	answers := 0
	c := r.serveLog(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if answers++; answers%2 == 1 {
				w = &cuttingWriter{w, 700}
			}
			h.ServeHTTP(w, q)
		})
	})
	missed := 0
	got := readLog(t, c, LogOptions{Follow: true, OnOutputLost: func() { missed++ }})
	if want := numberedLines(0, wrote); got != want || missed > 0 || answers < 4 {
		t.Errorf("got %d bytes of %d in %d answers, missed %d times", len(got), len(want), answers, missed)
	}
}

// TestLostOutputIsReported checks files that are removed before they are read.
func TestLostOutputIsReported(t *testing.T) {
	r := &rotatingBackend{state: job.Running, files: map[string]string{"stdout": numberedLines(0, 10)}}
	reads := 0
	r.read = func() {
		if reads++; reads == 8 {
			r.files = map[string]string{"stdout.2": numberedLines(500, 510), "stdout.1": numberedLines(510, 520), "stdout": numberedLines(520, 530)}
			r.state = job.Finished
		}
	}
	missed := 0
	got := readLog(t, r.serveLog(t, passThrough), LogOptions{Follow: true, OnOutputLost: func() { missed++ }})
	if want := numberedLines(0, 10) + numberedLines(500, 530); got != want || missed != 1 {
		t.Errorf("missed %d times, got %q", missed, got)
	}
	// A client that does not support the notice gets an aborted response instead of partial output.
	r.files, r.state, reads = map[string]string{"stdout": numberedLines(0, 10)}, job.Running, 0
	res, err := http.Get(r.serveLog(t, passThrough).baseURLs[0] + "/v1/tasks/t/log?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without the client: %v", err)
	}
}
