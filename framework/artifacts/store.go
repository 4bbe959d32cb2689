// Package artifacts keeps files of ended tasks in a folder or an S3-compatible store that the scheduler's operator
// names, so that they outlast the sandboxes of the agents: the artifacts that a job names, and the end of each task's output. It
// decides neither which tasks nor when: the leader copies them after each task's end.
package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/job"
)

const (
	// maxFiles bounds the files of one task, maxDepth the folders in each other.
	maxFiles, maxDepth = 10_000, 64
	// readSize is how much is read of an agent at a time, in bytes.
	readSize = 128 << 10
	// reportSuffix ends the name of the report next to a task's folder.
	reportSuffix = ".json"
)

// Store has the artifacts of tasks in folders JOB/RUN/INDEX, their reports in INDEX.json, and output in outputFolder. A report is written after
// the artifacts: a folder without one is incomplete. It is safe for concurrent use with different tasks. One scheduler at a
// time writes to a store.
type Store struct {
	storage storage
	limits  Limits
	usage   storeUsage
}

// storedReport is the content of a report.
type storedReport struct {
	api.ArtifactReport
	// Owner is the owner for whose limit the artifacts count.
	Owner string `json:"owner,omitempty"`
}

// storage is where a Store keeps files. Paths are relative and have slashes.
type storage interface {
	// readFile returns fs.ErrNotExist, wrapped, for a file that does not exist.
	readFile(ctx context.Context, name string) ([]byte, error)
	// writeFile replaces a file as a whole, or leaves the old one.
	writeFile(ctx context.Context, name string, text []byte) error
	// newUpload starts to replace a folder. The caller closes the upload.
	newUpload(ctx context.Context, folder string) (upload, error)
	// openSandbox returns a reader of a folder, which need not exist.
	openSandbox(folder string) request.TaskSandbox
	// listReports returns the names of all reports.
	listReports(ctx context.Context) ([]string, error)
	// remove removes a folder and its report, if they exist.
	remove(ctx context.Context, folder string) error
	// listFiles returns the files in a folder, which need not exist.
	listFiles(ctx context.Context, folder string) ([]storedFile, error)
	// removeFile removes a file, if it exists.
	removeFile(ctx context.Context, name string) error
}

// upload is a folder that is being replaced. Names are paths in it.
type upload interface {
	// makeFolder keeps a folder that has no files.
	makeFolder(name string) error
	// writeFile writes a file of size bytes, and the folders above it.
	writeFile(ctx context.Context, name string, from io.Reader, size int64) error
	// commit makes the written files the folder's contents.
	commit() error
	// close removes what was not committed.
	close()
}

// NewStore returns a store at a location, a folder or s3://BUCKET/PREFIX, or nil for "".
func NewStore(location string, limits Limits) (*Store, error) {
	switch {
	case location == "":
		return nil, nil
	case IsBucket(location):
		s, err := newBucketStorage(location, os.Getenv)
		if err != nil {
			return nil, err
		}
		return &Store{storage: s, limits: limits}, nil
	}
	return &Store{storage: folderStorage{location}, limits: limits}, nil
}

// taskFolder returns the folder of a task, whose name is the same for all attempts: the last one's artifacts stay.
func taskFolder(t *job.Task) string {
	run := t.RunID()
	return path.Join(run.Name, strconv.Itoa(run.Run), strconv.Itoa(t.Index))
}

// isReport reports whether a path in the storage is that of a report, not of an artifact.
func isReport(name string) bool {
	return strings.Count(name, "/") == 2 && strings.HasSuffix(name, reportSuffix) && !strings.HasPrefix(path.Base(name), atomicfile.TempPrefix)
}

// FindReport returns the report of a task, or nil if its artifacts are not copied yet. An
// earlier job of the same name may have left another task's report.
func (s *Store) FindReport(ctx context.Context, t *job.Task) (*api.ArtifactReport, error) {
	text, err := s.storage.readFile(ctx, taskFolder(t)+reportSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read report of artifacts: %w", err)
	}
	var r api.ArtifactReport
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("parse report of the artifacts of %s: %w", t.ID, err)
	}
	if r.Task != t.ID {
		return nil, nil
	}
	return &r, nil
}

// Copy copies the paths of a task's sandbox and writes the report. Paths that do not exist
// are in the report. Above the limit of the task or of its owner it keeps what was copied and reports that the rest is
// missing. An error means that the copy may succeed later, also if the store is full.
func (s *Store) Copy(
	ctx context.Context, t *job.Task, owner string, paths []string, from request.TaskSandbox, now time.Time,
) (report *api.ArtifactReport, err error) {
	if err := s.searchReports(ctx, now); err != nil {
		return nil, err
	}
	folder := taskFolder(t)
	s.usage.start(folder, owner, false)
	defer func() { s.usage.end(folder, now, err) }()
	to, err := s.storage.newUpload(ctx, folder)
	if err != nil {
		return nil, fmt.Errorf("make folder of artifacts: %w", err)
	}
	defer to.close()
	c := artifactCopy{
		ctx:      ctx,
		from:     from,
		to:       to,
		maxBytes: s.limits.Task,
		addFile:  func(name string, bytes int64) error { return s.addFile(ctx, folder, name, bytes) },
		report:   &api.ArtifactReport{Task: t.ID, Index: t.Index, Copied: now, Files: []api.Artifact{}},
	}
	for _, name := range paths {
		if err := c.copyPath(name); err != nil {
			if limit := (*limitError)(nil); errors.As(err, &limit) {
				c.report.Error = limit.Error()
				break
			}
			return nil, fmt.Errorf("copy %s of task %s: %w", name, t.ID, err)
		}
	}
	if err := to.commit(); err != nil {
		return nil, fmt.Errorf("keep artifacts: %w", err)
	}
	return c.report, s.writeReport(ctx, t, owner, c.report)
}

// RecordFailure writes a report without files: the artifacts cannot be copied any more.
func (s *Store) RecordFailure(ctx context.Context, t *job.Task, reason string, now time.Time) (*api.ArtifactReport, error) {
	r := &api.ArtifactReport{Task: t.ID, Index: t.Index, Copied: now, Error: reason, Files: []api.Artifact{}}
	return r, s.writeReport(ctx, t, "", r)
}

func (s *Store) writeReport(ctx context.Context, t *job.Task, owner string, r *api.ArtifactReport) error {
	text, err := json.Marshal(storedReport{*r, owner})
	if err == nil {
		err = s.storage.writeFile(ctx, taskFolder(t)+reportSuffix, text)
	}
	if err != nil {
		return fmt.Errorf("write report of artifacts: %w", err)
	}
	return nil
}

// limitError reports artifacts above a bound.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

// artifactCopy copies the artifacts of one task.
type artifactCopy struct {
	ctx  context.Context // stored, because all methods use it
	from request.TaskSandbox
	to   upload
	// bytes is the size of the files so far, which may not exceed maxBytes.
	maxBytes int64
	bytes    int64
	// addFile counts a file in the store's usage, or returns why it has no room.
	addFile func(name string, bytes int64) error
	// report has the files so far.
	report *api.ArtifactReport
}

// copyPath copies a file or a folder of the sandbox.
func (c *artifactCopy) copyPath(name string) error {
	list, err := c.from.ListFiles(c.ctx, path.Dir(name))
	i := slices.IndexFunc(list, func(f api.SandboxFile) bool { return f.Name == path.Base(name) })
	if errors.Is(err, request.ErrNoFile) || errors.Is(err, request.ErrUnreadable) || err == nil && i < 0 {
		c.report.Missing = append(c.report.Missing, name)
		return nil
	}
	if err != nil {
		return err
	}
	return c.copyEntry(name, list[i], 0)
}

// copyEntry copies a file or a folder that is depth folders below a path of the job. Devices, sockets and pipes are left
// out. It returns a *limitError if nothing more may be copied.
func (c *artifactCopy) copyEntry(name string, f api.SandboxFile, depth int) error {
	if depth > maxDepth || len(c.report.Files) >= maxFiles {
		return &limitError{fmt.Sprintf("more than %d files, or folders in more than %d others: the rest is left out", maxFiles, maxDepth)}
	}
	var err error
	switch {
	case !filepath.IsLocal(name):
		return &limitError{fmt.Sprintf("%q is not a path in the sandbox", name)}
	case f.Special:
		return nil
	case f.Folder:
		err = c.copyFolder(name, depth)
	default:
		err = c.copyFile(name)
	}
	if errors.Is(err, request.ErrNoFile) || errors.Is(err, request.ErrUnreadable) { // a link out of the sandbox
		c.report.Missing = append(c.report.Missing, name)
		return nil
	}
	return err
}

// copyFolder copies a folder with all that is in it.
func (c *artifactCopy) copyFolder(name string, depth int) error {
	list, err := c.from.ListFiles(c.ctx, name)
	if err != nil {
		return err
	}
	if err := c.to.makeFolder(name); err != nil {
		return err
	}
	for _, f := range list {
		if strings.ContainsAny(f.Name, "/\\") {
			continue
		}
		if err := c.copyEntry(path.Join(name, f.Name), f, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file with the size that it has now. What the task's program appends meanwhile is left out.
func (c *artifactCopy) copyFile(name string) error {
	data, size, err := c.from.ReadFile(c.ctx, name, 0, readSize)
	if err != nil {
		return err
	}
	if c.bytes += int64(min(size, 1<<62)); c.bytes > c.maxBytes {
		return &limitError{fmt.Sprintf("with %s the artifacts have %d bytes, more than the limit of %d: the rest is left out", name, c.bytes, c.maxBytes)}
	}
	if err := c.addFile(name, int64(min(size, 1<<62))); err != nil {
		return err
	}
	from := &sandboxFile{ctx: c.ctx, sandbox: c.from, name: name, next: data, size: size}
	if err := c.to.writeFile(c.ctx, name, from, int64(size)); err != nil {
		return err
	}
	c.report.Files = append(c.report.Files, api.Artifact{Path: name, Bytes: int64(size)})
	return nil
}

// sandboxFile reads a file of a sandbox, up to the size that it had at first.
type sandboxFile struct {
	ctx          context.Context // of one copy
	sandbox      request.TaskSandbox
	name         string
	next         []byte // read, and not yet returned
	offset, size uint64 // offset of next in the file, and the size of the file
}

func (f *sandboxFile) Read(p []byte) (n int, err error) {
	if f.offset >= f.size {
		return 0, io.EOF
	}
	if len(f.next) == 0 && f.offset > 0 {
		if f.next, _, err = f.sandbox.ReadFile(f.ctx, f.name, f.offset, readSize); err != nil {
			return 0, err
		}
	}
	f.next = f.next[:min(uint64(len(f.next)), f.size-f.offset)]
	if len(f.next) == 0 {
		return 0, fmt.Errorf("%s became smaller while it was read", f.name)
	}
	n = copy(p, f.next)
	f.next, f.offset = f.next[n:], f.offset+uint64(n)
	return n, nil
}

// FindSandbox returns the copied artifacts of a task, which are read like its sandbox. It
// returns nil if there are none.
func (s *Store) FindSandbox(ctx context.Context, t *job.Task) request.TaskSandbox {
	if r, err := s.FindReport(ctx, t); err != nil || r == nil || len(r.Files) == 0 {
		return nil
	}
	return s.storage.openSandbox(taskFolder(t))
}
