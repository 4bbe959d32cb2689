// Package audit writes down who changed what: one line of JSON for each
// request that may change something. It decides nothing, and writes no body,
// no header and, but for the beginning of a command, no query.
package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
)

// maxText bounds each text of an entry, in bytes.
const maxText = 512

// Entry is a line of the log.
type Entry struct {
	Time time.Time `json:"time"`
	// Who is the requester's name, as the access file knows it.
	Who string `json:"who,omitempty"`
	// From is the address that the request came from.
	From   string `json:"from"`
	Method string `json:"method"`
	Path   string `json:"path"`
	// Job and Role are what it was about, as far as that was found out.
	Job  string `json:"job,omitempty"`
	Role string `json:"role,omitempty"`
	// Task and Argv are where a command was run, and how it begins.
	Task string `json:"task,omitempty"`
	Argv string `json:"argv,omitempty"`
	// Made is the path of what it has made.
	Made string `json:"made,omitempty"`
	// Status is the HTTP status of the answer.
	Status int `json:"status"`
}

// Log is a file to which entries are added.
type Log struct {
	path  string
	log   logrus.FieldLogger
	clock func() time.Time

	mu   sync.Mutex
	file *os.File
}

// Open opens the file, which is made for its owner alone.
func Open(path string, log logrus.FieldLogger) (*Log, error) {
	l := &Log{path: path, log: log, clock: time.Now}
	return l, l.open()
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	l.file = f
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Wrap writes down the requests to h that may change something: those of
// people who are known, where that matters. What a standby only sends
// elsewhere changes nothing here. A connection that becomes another kind is
// written down when it does: it may last for days.
func (l *Log) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions) && len(r.Header["Upgrade"]) == 0
		if reads || !api.GrantOf(r.Context()).Known() {
			h.ServeHTTP(w, r)
			return
		}
		note := &api.Note{}
		told := &status{ResponseWriter: w}
		told.upgraded = func() { l.add(r, note, told) }
		defer func() {
			if told.code != http.StatusTemporaryRedirect && told.code != http.StatusSwitchingProtocols {
				l.add(r, note, told)
			}
		}()
		h.ServeHTTP(told, r.WithContext(api.WithNote(r.Context(), note)))
	})
}

func (l *Log) add(r *http.Request, note *api.Note, told *status) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	e := Entry{
		Time: l.clock().UTC(), Who: api.GrantOf(r.Context()).Who(), From: from, Method: r.Method, Path: r.URL.Path,
		Job: note.Job, Role: note.Role, Task: note.Task, Argv: note.Argv, Made: told.Header().Get("Location"), Status: cmp.Or(told.code, http.StatusOK),
	}
	for _, text := range []*string{&e.Who, &e.From, &e.Method, &e.Path, &e.Job, &e.Role, &e.Task, &e.Made} {
		*text = (*text)[:min(len(*text), maxText)]
	}
	if err := l.write(e); err != nil {
		l.log.WithError(err).Error("a change is not in the audit log")
	}
}

// write adds a line, to a new file where somebody has moved the old one away.
func (l *Log) write(e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write an entry: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.follow(); err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("add to the audit log: %w", err)
	}
	return nil
}

// follow opens the file of that name where ours has another by now.
func (l *Log) follow() error {
	ours, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("look at the audit log: %w", err)
	}
	if there, err := os.Stat(l.path); err == nil && os.SameFile(ours, there) {
		return nil
	}
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	return old.Close()
}

// status notes the status of an answer.
type status struct {
	http.ResponseWriter
	code     int
	upgraded func() // is called when there will be no answer but another protocol
}

func (s *status) WriteHeader(code int) {
	if s.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		s.code = code
		if code == http.StatusSwitchingProtocols {
			s.upgraded()
		}
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *status) Write(p []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController through.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
