package client

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/job"
)

// The last lines are those of all files together, the newest file's end
// included that no line end closes.
func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		last  int
		files map[string]string
		want  string
	}{
		{2, map[string]string{"stdout": lines(0, 5)}, lines(3, 5)},
		{5, map[string]string{"stdout": lines(0, 5)}, lines(0, 5)},
		{9, map[string]string{"stdout": lines(0, 5)}, lines(0, 5)},
		{2, map[string]string{"stdout": lines(0, 5) + "rest"}, lines(4, 5) + "rest"},
		{20, map[string]string{"stdout.2": lines(0, 100), "stdout.1": lines(100, 115), "stdout": lines(115, 117)}, lines(97, 117)},
		{2, map[string]string{"stdout": ""}, ""},
		{1, map[string]string{"stdout": "\n\n"}, "\n"},
	} {
		for _, follow := range []bool{false, true} {
			r := &rotated{state: job.Finished, read: func() {}, files: test.files}
			if got := readLog(t, r.serve(t, plain), LogOptions{Last: test.last, Follow: follow}); got != test.want {
				t.Errorf("last %d of %q, followed %t: got %q, want %q", test.last, test.files, follow, got, test.want)
			}
		}
	}
}

// Followed, nothing of what comes after the last lines is missing or there
// twice: also where the file is rotated between the two readings.
func TestLastLinesGoOn(t *testing.T) {
	r := &rotated{state: job.Running, files: map[string]string{"stdout": lines(0, 50)}}
	answers := 0
	c := r.serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if answers++; answers == 2 {
				r.mu.Lock()
				r.files["stdout"] += lines(50, 60)
				r.rotate(lines(60, 70))
				r.state = job.Finished
				r.mu.Unlock()
			}
			h.ServeHTTP(w, q)
		})
	})
	r.read = func() {}
	if got, want := readLog(t, c, LogOptions{Last: 10, Follow: true}), lines(40, 70); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A task that has written nothing yet is followed all the same.
func TestLastLinesOfNothing(t *testing.T) {
	r := &rotated{state: job.Running, files: map[string]string{}}
	reads := 0 // while it is followed
	r.read = func() {
		if reads > 0 {
			reads++
		}
		if reads > 3 {
			r.files["stdout"], r.state = lines(0, 5), job.Finished
		}
	}
	c := r.serve(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Query().Get("follow") != "" {
				r.mu.Lock()
				reads++
				r.mu.Unlock()
			}
			h.ServeHTTP(w, q)
		})
	})
	if _, err := c.Log(context.Background(), "t", LogOptions{Last: 3}); err == nil || !strings.Contains(err.Error(), "has no stdout") {
		t.Errorf("got %v", err)
	}
	body, err := c.Log(context.Background(), "t", LogOptions{Last: 3, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); err != nil || string(text) != lines(0, 5) {
		t.Errorf("got %q, %v", text, err)
	}
}
