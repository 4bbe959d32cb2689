// Package artifacts keeps files of ended tasks in a folder that the scheduler's operator
// names, so that they outlast the sandboxes of the agents. It decides neither which tasks
// nor when: the leader copies the artifacts that a job names after each task's end.
package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
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

// Store is a folder with the artifacts of tasks: JOB/RUN/INDEX, and INDEX.json with the
// report. The operator removes what is too old.
type Store struct {
	folder string
	// maxBytes bounds the artifacts of one task.
	maxBytes int64
}

// NewStore returns a store in a folder, or nil for "".
func NewStore(folder string, maxBytes int64) *Store {
	if folder == "" {
		return nil
	}
	return &Store{folder, maxBytes}
}

func taskFolder(t *job.Task) string {
	run := t.RunID()
	return path.Join(run.Name, strconv.Itoa(run.Run), strconv.Itoa(t.Index))
}

// FindReport returns the report of a task, or nil if its artifacts are not copied yet. An
// earlier job of the same name may have left another task's report.
func (s *Store) FindReport(t *job.Task) (*api.ArtifactReport, error) {
	text, err := os.ReadFile(filepath.Join(s.folder, taskFolder(t)+reportSuffix))
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
// are in the report. An error means that the copy may succeed later.
func (s *Store) Copy(ctx context.Context, t *job.Task, paths []string, from apiserver.TaskSandbox, now time.Time) (*api.ArtifactReport, error) {
	folder := filepath.Join(s.folder, taskFolder(t))
	temp := filepath.Join(filepath.Dir(folder), atomicfile.TempPrefix+filepath.Base(folder))
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o700)); err != nil {
		return nil, fmt.Errorf("make folder of artifacts: %w", err)
	}
	defer os.RemoveAll(temp) // it does not exist after the rename
	root, err := os.OpenRoot(temp)
	if err != nil {
		return nil, fmt.Errorf("open folder of artifacts: %w", err)
	}
	defer root.Close()
	c := artifactCopy{ctx: ctx, from: from, to: root, maxBytes: s.maxBytes, report: &api.ArtifactReport{Task: t.ID, Index: t.Index, Copied: now, Files: []api.Artifact{}}}
	for _, name := range paths {
		if err := c.copyPath(name); err != nil {
			if limit := (*limitError)(nil); errors.As(err, &limit) {
				c.report.Error = limit.Error()
				break
			}
			return nil, fmt.Errorf("copy %s of task %s: %w", name, t.ID, err)
		}
	}
	if err := errors.Join(os.RemoveAll(folder), os.Rename(temp, folder)); err != nil {
		return nil, fmt.Errorf("keep artifacts: %w", err)
	}
	return c.report, s.writeReport(t, c.report)
}

// RecordFailure writes a report without files: the artifacts cannot be copied any more.
func (s *Store) RecordFailure(t *job.Task, reason string, now time.Time) (*api.ArtifactReport, error) {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(s.folder, taskFolder(t))), 0o700); err != nil {
		return nil, fmt.Errorf("make folder of artifacts: %w", err)
	}
	r := &api.ArtifactReport{Task: t.ID, Index: t.Index, Copied: now, Error: reason, Files: []api.Artifact{}}
	return r, s.writeReport(t, r)
}

func (s *Store) writeReport(t *job.Task, r *api.ArtifactReport) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = atomicfile.Write(filepath.Join(s.folder, taskFolder(t)+reportSuffix), text, 0o600)
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
	ctx      context.Context // stored, because all methods use it
	from     apiserver.TaskSandbox
	to       *os.Root
	maxBytes int64
	bytes    int64
	report   *api.ArtifactReport
}

// copyPath copies a file or a folder of the sandbox.
func (c *artifactCopy) copyPath(name string) error {
	list, err := c.from.ListFiles(c.ctx, path.Dir(name))
	i := slices.IndexFunc(list, func(f api.SandboxFile) bool { return f.Name == path.Base(name) })
	if errors.Is(err, apiserver.ErrNoFile) || errors.Is(err, apiserver.ErrUnreadable) || err == nil && i < 0 {
		c.report.Missing = append(c.report.Missing, name)
		return nil
	}
	if err != nil {
		return err
	}
	return c.copyEntry(name, list[i], 0)
}

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
	if errors.Is(err, apiserver.ErrNoFile) || errors.Is(err, apiserver.ErrUnreadable) { // a link out of the sandbox
		c.report.Missing = append(c.report.Missing, name)
		return nil
	}
	return err
}

func (c *artifactCopy) copyFolder(name string, depth int) error {
	list, err := c.from.ListFiles(c.ctx, name)
	if err != nil {
		return err
	}
	if err := c.to.MkdirAll(name, 0o755); err != nil {
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

func (c *artifactCopy) copyFile(name string) (err error) {
	data, size, err := c.from.ReadFile(c.ctx, name, 0, readSize)
	if err != nil {
		return err
	}
	if c.bytes += int64(min(size, 1<<62)); c.bytes > c.maxBytes {
		return &limitError{fmt.Sprintf("with %s the artifacts have %d bytes, more than the limit of %d: the rest is left out", name, c.bytes, c.maxBytes)}
	}
	if err := c.to.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := c.to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for offset := uint64(0); offset < size; {
		data = data[:min(uint64(len(data)), size-offset)]
		if len(data) == 0 {
			return fmt.Errorf("%s became smaller while it was read", name)
		}
		if _, err := out.Write(data); err != nil {
			return err
		}
		if offset += uint64(len(data)); offset < size {
			if data, _, err = c.from.ReadFile(c.ctx, name, offset, readSize); err != nil {
				return err
			}
		}
	}
	c.report.Files = append(c.report.Files, api.Artifact{Path: name, Bytes: int64(size)})
	return nil
}
