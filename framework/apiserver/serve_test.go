package apiserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/job"
)

// pipeListener accepts one in-memory connection.
type pipeListener struct {
	conns  chan net.Conn
	closed context.CancelFunc
	ctx    context.Context
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.closed()
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// sendGet sends one request to a server that runs until the test ends.
func sendGet(t *testing.T, h http.Handler, path string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &pipeListener{conns: make(chan net.Conn, 1)}
	l.ctx, l.closed = context.WithCancel(context.Background())
	near, far := net.Pipe()
	l.conns <- far
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h, discardLogger()) }()
	t.Cleanup(func() {
		near.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	fmt.Fprintf(near, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	res, err := http.ReadResponse(bufio.NewReader(near), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestSlowResponsesComplete checks that a response may take as long as a call to the master.
func TestSlowResponsesComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := sendGet(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(45 * time.Second):
				http.Error(w, "the master does not answer", http.StatusBadGateway)
			case <-r.Context().Done():
			}
		}), "/")
		if text, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(text), "the master does not answer") {
			t.Errorf("read %q, %v", text, err)
		}
	})
}

// TestFollowedLogOfShortTask checks that the answer ends soon after a short task. A long one is polled rarely.
func TestFollowedLogOfShortTask(t *testing.T) {
	for _, c := range []struct {
		runs, late time.Duration
		polls      int
	}{{5 * time.Millisecond, 20 * time.Millisecond, 2}, {50 * time.Millisecond, 60 * time.Millisecond, 4}, {3 * time.Second, 300 * time.Millisecond, 15}} {
		synctest.Test(t, func(t *testing.T) {
			f := &endingTask{fakeBackend: fakeBackend{readLog: func(uint64) ([]byte, error) { return nil, nil }}, end: time.Now().Add(c.runs)}
			res := sendGet(t, NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()), "/v1/tasks/t/log?follow=true")
			if _, err := io.ReadAll(res.Body); err != nil {
				t.Error(err)
			}
			if late := time.Since(f.end); late > c.late || f.polls > c.polls {
				t.Errorf("a task of %s: the answer ended %s later, after %d polls; want at most %s and %d", c.runs, late, f.polls, c.late, c.polls)
			}
		})
	}
}

// TestFollowedLogAfterQuietPeriod checks that a log is polled as often as at first after the task has written: output that
// follows soon is not delayed.
func TestFollowedLogAfterQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		first := start.Add(10 * time.Second)
		second := first.Add(logPoll + minLogPoll) // the poll that finds the first line is up to logPoll late
		f := &endingTask{end: start.Add(time.Minute)}
		f.readLog = func(offset uint64) ([]byte, error) {
			text := ""
			if !time.Now().Before(first) {
				text = "one\n"
			}
			if !time.Now().Before(second) {
				text += "two\n"
			}
			return []byte(text[min(int(offset), len(text)):]), nil
		}
		res := sendGet(t, NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()), "/v1/tasks/t/log?follow=true")
		for _, want := range []string{"one\n", "two\n"} {
			line := make([]byte, len(want))
			if _, err := io.ReadFull(res.Body, line); err != nil || string(line) != want {
				t.Fatalf("read %q, %v", line, err)
			}
		}
		if late := time.Since(second); late > 4*minLogPoll {
			t.Errorf("the second line is read %s late", late)
		}
	})
}

// endingTask is a backend whose task ends at a time.
type endingTask struct {
	fakeBackend
	end time.Time
	// polls counts the requests for its state.
	polls int
}

func (e *endingTask) GetTask(context.Context, string) (job.Task, error) {
	e.polls++
	task := job.Task{ID: "t", AgentID: "a", State: job.Running, Started: time.Now()}
	if !time.Now().Before(e.end) {
		task.State = job.Finished
	}
	return task, nil
}

// TestStreamsOutliveWriteTimeout checks that a log is followed as long as its task runs.
func TestStreamsOutliveWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fakeBackend{task: job.Task{ID: "t", AgentID: "a", State: job.Running, Started: start}}
		f.readLog = func(offset uint64) ([]byte, error) {
			text := strings.Repeat("line\n", int(time.Since(start)/time.Minute))
			return []byte(text[min(int(offset), len(text)):]), nil
		}
		res := sendGet(t, NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()), "/v1/tasks/t/log?follow=true")
		text := make([]byte, 25)
		if n, err := io.ReadFull(res.Body, text); err != nil {
			t.Errorf("read %q after %s, %v", text[:n], time.Since(start), err)
		}
	})
}
