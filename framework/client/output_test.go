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
	"mesos-gpu/internal/outputindex"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/job"
)

// rotatingBackend has the output of a task that has ended or is still writing, and its index.
type rotatingBackend struct {
	backendtest.Reads // the test calls only the methods below
	backendtest.Commands
	mu    sync.Mutex
	files map[string]string
	state job.State
	read  func() // called before each read
	end   outputindex.Entry
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
	if file != outputindex.FileName {
		length = min(length, 300)
	}
	return []byte(text[from:min(from+int(length), len(text))]), uint64(len(text)), nil
}

// rotateFile starts a new file.
func (r *rotatingBackend) rotateFile(text string) {
	for i := 9; i > 0; i-- {
		if old, ok := r.files[fmt.Sprintf("stdout.%d", i)]; ok && i < 9 {
			r.files[fmt.Sprintf("stdout.%d", i+1)] = old
		}
	}
	r.files["stdout.1"], r.files["stdout"] = r.files["stdout"], text
	r.addEntry(len(text))
}

// addEntry adds the entry of a new file.
func (r *rotatingBackend) addEntry(size int) {
	r.end.Starts[outputindex.Stdout] = r.end.Ends[outputindex.Stdout]
	r.end.Ends[outputindex.Stdout] += int64(size)
	r.files[outputindex.FileName] += string(r.end.AppendLine(nil))
}

func newRotatingBackend(text string) *rotatingBackend {
	r := &rotatingBackend{state: job.Running, end: outputindex.Entry{Time: time.Unix(1000, 0)}, files: map[string]string{"stdout": text}}
	r.addEntry(len(text))
	return r
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

// readOutput returns the output of a task, and how often some of it was lost.
func readOutput(t *testing.T, c *Client, o OutputOptions) (text string, lost int) {
	t.Helper()
	for part, err := range c.ReadTaskOutput(t.Context(), "t", o) {
		if err != nil {
			t.Fatal(err)
		}
		if part.Lost {
			lost++
		}
		text += string(part.Output())
	}
	return text, lost
}

// TestOutputStartsWithOldestFile checks that the whole output is returned, also to other clients.
func TestOutputStartsWithOldestFile(t *testing.T) {
	r := &rotatingBackend{
		state: job.Finished,
		read:  func() {},
		files: map[string]string{"stdout.2": numberedLines(0, 100), "stdout.1": numberedLines(100, 200), "stdout": numberedLines(200, 210)},
	}
	c := r.serveLog(t, passThrough)
	if got, _ := readOutput(t, c, OutputOptions{}); got != numberedLines(0, 210) {
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

// TestFollowedOutputSurvivesRotation rotates the file while it is followed and while the
// connection is broken.
func TestFollowedOutputSurvivesRotation(t *testing.T) {
	r := newRotatingBackend(numberedLines(0, 100))
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
			if answers++; answers < 4 {
				w = &cuttingWriter{w, 1500}
			}
			h.ServeHTTP(w, q)
		})
	})
	got, missed := readOutput(t, c, OutputOptions{Follow: true})
	if want := numberedLines(0, wrote); got != want || missed > 0 || answers < 4 {
		t.Errorf("got %d bytes of %d in %d answers, missed %d times", len(got), len(want), answers, missed)
	}
}

// TestLostOutputIsReported checks files that are removed before they are read.
func TestLostOutputIsReported(t *testing.T) {
	r := newRotatingBackend(numberedLines(0, 10))
	reads := 0
	loseOutput := func() {
		if reads++; reads == 8 {
			for from := 10; from < 530; from += 10 {
				r.rotateFile(numberedLines(from, from+10))
			}
			r.files = map[string]string{
				outputindex.FileName: r.files[outputindex.FileName],
				"stdout.2":           r.files["stdout.2"],
				"stdout.1":           r.files["stdout.1"],
				"stdout":             r.files["stdout"],
			}
			r.state = job.Finished
		}
	}
	r.read = loseOutput
	got, missed := readOutput(t, r.serveLog(t, passThrough), OutputOptions{Follow: true})
	if want := numberedLines(0, 10) + numberedLines(500, 530); got != want || missed != 1 {
		t.Errorf("missed %d times, got %q", missed, got)
	}
	// A client that does not support the notice gets an aborted response instead of partial output.
	r, reads = newRotatingBackend(numberedLines(0, 10)), 0
	r.read = loseOutput
	res, err := http.Get(r.serveLog(t, passThrough).baseURLs[0] + "/v1/tasks/t/log?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without the client: %v", err)
	}
}
