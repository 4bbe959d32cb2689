// Package audit writes the audit log: one line of JSON for each request that may change
// state, with its user. It does not record bodies, headers or queries, except the start
// of an exec command.
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

	"mesos-gpu/framework/internal/apihttp"

	"github.com/sirupsen/logrus"
)

// maxFieldSize limits each string of an entry, in bytes.
const maxFieldSize = 512

// AuditEntry is one line of the log.
type AuditEntry struct {
	// Time is when the request was answered, or its connection upgraded.
	Time time.Time `json:"time"`
	// User is the requester's name in the access file.
	User string `json:"who,omitempty"`
	// RemoteAddr is the address of the requester, without the port.
	RemoteAddr string `json:"from"`
	Method     string `json:"method"`
	Path       string `json:"path"`
	// Job and Role are the objects of the request; "" if unknown.
	Job  string `json:"job,omitempty"`
	Role string `json:"role,omitempty"`
	// Task is the task of an exec command, and Argv the start of the command.
	Task string `json:"task,omitempty"`
	Argv string `json:"argv,omitempty"`
	// Created is the path of the object that the request created.
	Created string `json:"made,omitempty"`
	// Status is the HTTP status of the response.
	Status int `json:"status"`
}

// AuditLog appends entries to a file. It is safe for concurrent use.
type AuditLog struct {
	// path is the file to which entries are appended. Open sets it.
	path string
	// log reports failed writes: a request is not refused because its entry cannot be written.
	log logrus.FieldLogger
	// clock gives the time of entries; tests replace it.
	clock func() time.Time

	// mu serializes writes and protects file, which is opened again after the log was rotated.
	mu   sync.Mutex
	file *os.File
}

// Open opens the file, or creates it with mode 0600.
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

// Wrap logs the requests to h that may change state, unless an access file is
// configured and the requester is not authenticated. It omits requests that a standby
// redirects. An upgraded connection is logged at the upgrade, because it may last for
// days.
func (l *AuditLog) Wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := (r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions) && len(r.Header["Upgrade"]) == 0
		if reads || !apihttp.GrantOf(r.Context()).IsKnown() {
			h.ServeHTTP(w, r)
			return
		}
		note := &apihttp.AuditNote{}
		told := &statusRecorder{ResponseWriter: w}
		told.onUpgrade = func() { l.addEntry(r, note, told) }
		defer func() {
			if !note.ReadOnly && told.code != http.StatusTemporaryRedirect && told.code != http.StatusSwitchingProtocols {
				l.addEntry(r, note, told)
			}
		}()
		h.ServeHTTP(told, r.WithContext(apihttp.WithAuditNote(r.Context(), note)))
	})
}

func (l *AuditLog) addEntry(r *http.Request, note *apihttp.AuditNote, told *statusRecorder) {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = r.RemoteAddr
	}
	e := AuditEntry{
		Time: l.clock().UTC(), User: apihttp.GrantOf(r.Context()).UserName(), RemoteAddr: from, Method: r.Method, Path: r.URL.Path,
		Job: note.Job, Role: note.Role, Task: note.Task, Argv: note.Argv, Created: told.Header().Get("Location"), Status: cmp.Or(told.code, http.StatusOK),
	}
	for _, text := range []*string{&e.User, &e.RemoteAddr, &e.Method, &e.Path, &e.Job, &e.Role, &e.Task, &e.Created} {
		*text = (*text)[:min(len(*text), maxFieldSize)]
	}
	if err := l.writeEntry(e); err != nil {
		l.log.WithError(err).Error("a change is not in the audit log")
	}
}

// writeEntry appends a line. If the file was moved, it creates a new one.
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

// reopenIfMoved reopens the file if its path refers to another file, or to none.
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

// statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	code      int
	onUpgrade func() // called when the connection switches to another protocol
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

// Unwrap supports http.ResponseController.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
