// Package audit writes the audit log: one line of JSON for each request that may
// change something, with its user. It decides nothing, and writes no body, no
// header and no query, except the beginning of a command.
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

// maxFieldSize bounds each text of an entry, in bytes.
const maxFieldSize = 512

// AuditEntry is a line of the log.
type AuditEntry struct {
	Time time.Time `json:"time"`
	// User is the requester's name, as the access file knows it.
	User string `json:"who,omitempty"`
	// RemoteAddr is the address that the request came from.
	RemoteAddr string `json:"from"`
	Method     string `json:"method"`
	Path       string `json:"path"`
	// Job and Role are what the request was about; empty where that is not known.
	Job  string `json:"job,omitempty"`
	Role string `json:"role,omitempty"`
	// Task and Argv are where a command was run, and how it begins.
	Task string `json:"task,omitempty"`
	Argv string `json:"argv,omitempty"`
	// Created is the path of what it has made.
	Created string `json:"made,omitempty"`
	// Status is the HTTP status of the answer.
	Status int `json:"status"`
}

// AuditLog is a file to which entries are added.
type AuditLog struct {
	path  string
	log   logrus.FieldLogger
	clock func() time.Time

	mu   sync.Mutex
	file *os.File
}

// Open opens the file, which is made for its owner alone.
func Open(path string, log logrus.FieldLogger) (*AuditLog, error) {
	l := &AuditLog{path: path, log: log, clock: time.Now}
	return l, l.openFile()
}

func (l *AuditLog) openFile() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the audit log: %w", err)
	}
	l.file = f
	return nil
}

// Close closes the file.
func (l *AuditLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Wrap writes down the requests to h that may change something: those of
// people who are known, where that matters. What a standby only sends
// elsewhere changes nothing here. A connection that becomes another kind is
// written down when it does: it may last for days.
func (l *AuditLog) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions) && len(r.Header["Upgrade"]) == 0
		if reads || !api.GrantOf(r.Context()).IsKnown() {
			h.ServeHTTP(w, r)
			return
		}
		note := &api.AuditNote{}
		told := &statusRecorder{ResponseWriter: w}
		told.onUpgrade = func() { l.addEntry(r, note, told) }
		defer func() {
			if told.code != http.StatusTemporaryRedirect && told.code != http.StatusSwitchingProtocols {
				l.addEntry(r, note, told)
			}
		}()
		h.ServeHTTP(told, r.WithContext(api.WithAuditNote(r.Context(), note)))
	})
}

func (l *AuditLog) addEntry(r *http.Request, note *api.AuditNote, told *statusRecorder) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	e := AuditEntry{
		Time: l.clock().UTC(), User: api.GrantOf(r.Context()).UserName(), RemoteAddr: from, Method: r.Method, Path: r.URL.Path,
		Job: note.Job, Role: note.Role, Task: note.Task, Argv: note.Argv, Created: told.Header().Get("Location"), Status: cmp.Or(told.code, http.StatusOK),
	}
	for _, text := range []*string{&e.User, &e.RemoteAddr, &e.Method, &e.Path, &e.Job, &e.Role, &e.Task, &e.Created} {
		*text = (*text)[:min(len(*text), maxFieldSize)]
	}
	if err := l.writeEntry(e); err != nil {
		l.log.WithError(err).Error("a change is not in the audit log")
	}
}

// writeEntry adds a line, to a new file if the old one was moved away.
func (l *AuditLog) writeEntry(e AuditEntry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("write an entry: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.reopenIfMoved(); err != nil {
		return err
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("add to the audit log: %w", err)
	}
	return nil
}

// reopenIfMoved opens the file of that name where ours has another by now.
func (l *AuditLog) reopenIfMoved() error {
	ours, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("look at the audit log: %w", err)
	}
	if there, err := os.Stat(l.path); err == nil && os.SameFile(ours, there) {
		return nil
	}
	old := l.file
	if err := l.openFile(); err != nil {
		return err
	}
	return old.Close()
}

// statusRecorder notes the status of an answer.
type statusRecorder struct {
	http.ResponseWriter
	code      int
	onUpgrade func() // is called when there will be no answer but another protocol
}

func (s *statusRecorder) WriteHeader(code int) {
	if s.code == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		s.code = code
		if code == http.StatusSwitchingProtocols {
			s.onUpgrade()
		}
	}
	s.ResponseWriter.WriteHeader(code)
}

func (s *statusRecorder) Write(p []byte) (int, error) {
	if s.code == 0 {
		s.code = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController through.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
