package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/taskoutput"
)

// outputFolder has the stored output of ended attempts, a file for each. No job has such a name.
const outputFolder = ".output"

// outputSuffix ends the name of a file after the id of the attempt.
const outputSuffix = ".gz"

// storedFile is a file in the storage.
type storedFile struct {
	// name is the last part of its path.
	name     string
	bytes    int64
	modified time.Time
}

func outputFile(task string) string { return path.Join(outputFolder, task+outputSuffix) }

// taskOfOutput returns the attempt whose output a file has, "" for a file that has none.
func taskOfOutput(file string) string {
	task, ok := strings.CutSuffix(path.Base(file), outputSuffix)
	if !ok || strings.HasPrefix(task, ".") {
		return ""
	}
	return task
}

// LoadOutput counts the output that is in the storage, and removes that of attempts for which ownerOf returns false, because
// their jobs are no longer recorded. A leader calls it once, before WriteOutput: later, the storage may have the output of
// tasks that only a newer leader knows.
func (s *Store) LoadOutput(ctx context.Context, ownerOf func(task string) (owner string, ok bool)) error {
	files, err := s.storage.listFiles(ctx, outputFolder)
	if err != nil {
		return fmt.Errorf("list stored output: %w", err)
	}
	var forgotten []string
	known := map[string]folderUsage{}
	for _, f := range files {
		task := taskOfOutput(f.name)
		if owner, ok := ownerOf(task); ok && task != "" {
			known[outputFile(task)] = folderUsage{owner: owner, bytes: f.bytes, copied: f.modified, isOutput: true}
		} else {
			forgotten = append(forgotten, path.Join(outputFolder, f.name))
		}
	}
	s.usage.replaceOutput(known)
	return s.removeFiles(ctx, forgotten)
}

// replaceOutput counts this output and no other.
func (u *storeUsage) replaceOutput(known map[string]folderUsage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, f := range u.folders {
		if f.isOutput {
			u.drop(name)
		}
	}
	for name, f := range known {
		u.put(name, f)
	}
}

// HasOutput reports whether the output of an attempt is stored.
func (s *Store) HasOutput(task string) bool {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	_, ok := s.usage.folders[outputFile(task)]
	return ok
}

// ErrNoRoom means that an owner's artifacts leave no room for output.
var ErrNoRoom = errors.New("no room")

// WriteOutput stores the output of an attempt. If the owner or the store has no room for it, the oldest output of the owner,
// or of all, is removed first. It returns ErrNoRoom, wrapped, if the owner's artifacts alone exceed the limit.
func (s *Store) WriteOutput(ctx context.Context, task, owner string, tail *taskoutput.Tail, now time.Time) (err error) {
	text, err := tail.Encode()
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	if err := s.searchReports(ctx, now); err != nil {
		return err
	}
	file := outputFile(task)
	s.usage.start(file, owner, true)
	defer func() { s.usage.end(file, now, err) }()
	if err := s.addFile(ctx, file, "the output", int64(len(text))); err != nil {
		if limit := (*limitError)(nil); errors.As(err, &limit) {
			return fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
		return err
	}
	if err := s.storage.writeFile(ctx, file, text); err != nil {
		return fmt.Errorf("store output: %w", err)
	}
	return nil
}

// ReadOutput returns the stored output of an attempt, nil if there is none, or no store. Schedulers that do not lead may call it, too.
func (s *Store) ReadOutput(ctx context.Context, task string) (*taskoutput.Tail, error) {
	if s == nil {
		return nil, nil
	}
	text, err := s.storage.readFile(ctx, outputFile(task))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read stored output: %w", err)
	}
	return taskoutput.DecodeTail(text)
}

// RemoveOutput removes the output of the attempts that isForgotten reports.
func (s *Store) RemoveOutput(ctx context.Context, isForgotten func(task string) bool) error {
	var forgotten []string
	u := &s.usage
	u.mu.Lock()
	for name, f := range u.folders {
		if f.isOutput && !f.running {
			forgotten = append(forgotten, name)
		}
	}
	u.mu.Unlock()
	for _, name := range forgotten {
		if !isForgotten(taskOfOutput(name)) {
			continue
		}
		if err := s.removeFiles(ctx, []string{name}); err != nil {
			return err
		}
		u.mu.Lock()
		u.drop(name)
		u.mu.Unlock()
	}
	return nil
}

// removeFiles removes files that need not exist.
func (s *Store) removeFiles(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := s.storage.removeFile(ctx, name); err != nil {
			return fmt.Errorf("remove stored output: %w", err)
		}
	}
	return nil
}

// addFile counts a file of a running copy, and removes the output that makes room for it. It fails like storeUsage.addFile.
func (s *Store) addFile(ctx context.Context, folder, name string, bytes int64) error {
	removed, err := s.usage.addFile(folder, name, bytes, &s.limits)
	return errors.Join(err, s.removeFiles(ctx, removed))
}

// removeOldest forgets the oldest output of an owner, or of all for "", until it has freed so many bytes. It returns the files
// to remove: none if all of them have less. The caller holds the lock.
func (u *storeUsage) removeOldest(owner string, bytes int64) (removed []string) {
	if bytes <= 0 {
		return nil
	}
	var oldest []string
	available := int64(0)
	for name, f := range u.folders {
		if f.isOutput && !f.running && (owner == "" || f.owner == owner) {
			oldest = append(oldest, name)
			available += f.bytes
		}
	}
	if available < bytes {
		return nil
	}
	slices.SortFunc(oldest, func(x, y string) int { return u.folders[x].copied.Compare(u.folders[y].copied) })
	for _, name := range oldest {
		if bytes <= 0 {
			break
		}
		bytes -= u.folders[name].bytes
		u.drop(name)
		removed = append(removed, name)
	}
	return removed
}
