package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/job"
)

// The last lines span all files and include an unfinished line at the end of the newest one.
func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		last  int
		files map[string]string
		want  string
	}{
		{2, map[string]string{"stdout": numberedLines(0, 5)}, numberedLines(3, 5)},
		{5, map[string]string{"stdout": numberedLines(0, 5)}, numberedLines(0, 5)},
		{9, map[string]string{"stdout": numberedLines(0, 5)}, numberedLines(0, 5)},
		{2, map[string]string{"stdout": numberedLines(0, 5) + "rest"}, numberedLines(4, 5) + "rest"},
		{20, map[string]string{"stdout.2": numberedLines(0, 100), "stdout.1": numberedLines(100, 115), "stdout": numberedLines(115, 117)}, numberedLines(97, 117)},
		{2, map[string]string{"stdout": ""}, ""},
		{1, map[string]string{"stdout": "\n\n"}, "\n"},
	} {
		for _, follow := range []bool{false, true} {
			r := &rotatingBackend{state: job.Finished, read: func() {}, files: test.files}
			if got := readLog(t, r.serveLog(t, passThrough), LogOptions{TailLines: test.last, Follow: follow}); got != test.want {
				t.Errorf("last %d of %q, followed %t: got %q, want %q", test.last, test.files, follow, got, test.want)
			}
		}
	}
}

// With Follow no output after the last lines is lost or repeated, even if the file is rotated
// between the two reads.
func TestLastLinesFollowed(t *testing.T) {
	r := &rotatingBackend{state: job.Running, files: map[string]string{"stdout": numberedLines(0, 50)}}
	answers := 0
	c := r.serveLog(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if answers++; answers == 2 {
				r.mu.Lock()
				r.files["stdout"] += numberedLines(50, 60)
				r.rotateFile(numberedLines(60, 70))
				r.state = job.Finished
				r.mu.Unlock()
			}
			h.ServeHTTP(w, q)
		})
	})
	r.read = func() {}
	if got, want := readLog(t, c, LogOptions{TailLines: 10, Follow: true}), numberedLines(40, 70); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A task that has no output yet is followed too.
func TestLastLinesOfMissingLog(t *testing.T) {
	r := &rotatingBackend{state: job.Running, files: map[string]string{}}
	reads := 0 // number of reads while following
	r.read = func() {
		if reads > 0 {
			reads++
		}
		if reads > 3 {
			r.files["stdout"], r.state = numberedLines(0, 5), job.Finished
		}
	}
	c := r.serveLog(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Query().Get("follow") != "" {
				r.mu.Lock()
				reads++
				r.mu.Unlock()
			}
			h.ServeHTTP(w, q)
		})
	})
	if _, err := c.OpenTaskLog(context.Background(), "t", LogOptions{TailLines: 3}); err == nil || !strings.Contains(err.Error(), "has no stdout") {
		t.Errorf("got %v", err)
	}
	body, err := c.OpenTaskLog(context.Background(), "t", LogOptions{TailLines: 3, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); err != nil || string(text) != numberedLines(0, 5) {
		t.Errorf("got %q, %v", text, err)
	}
}

// The caller learns when the output that existed has been read; none is lost or repeated, even if
// the file is rotated then.
func TestCatchingUp(t *testing.T) {
	for _, first := range []string{numberedLines(0, 50), ""} {
		r := &rotatingBackend{state: job.Running, read: func() {}, files: map[string]string{}}
		if first != "" {
			r.files["stdout"] = first
		}
		caughtUp := 0
		got := readLog(t, r.serveLog(t, passThrough), LogOptions{Follow: true, OnCaughtUp: func() {
			caughtUp++
			r.mu.Lock()
			defer r.mu.Unlock()
			if first != "" {
				r.files["stdout"] += numberedLines(50, 60)
				r.rotateFile(numberedLines(60, 70))
			} else {
				r.files["stdout"] = numberedLines(50, 70)
			}
			r.state = job.Finished
		}})
		if want := first + numberedLines(50, 70); got != want || caughtUp != 1 {
			t.Errorf("caught up %d times, got %q, want %q", caughtUp, got, want)
		}
	}
}
