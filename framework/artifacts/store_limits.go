package artifacts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"
)

// Limits bounds the artifacts and the output in a store, in bytes.
type Limits struct {
	// Task bounds those of one task. Owner bounds those of all tasks of one owner, and Total all; 0 is no limit.
	Task, Owner, Total int64
	// Keep is how long artifacts are kept after they were copied; 0 keeps them until the operator removes them.
	Keep time.Duration
}

// reportsInterval is the time between two searches for reports: what the operator or another scheduler has removed or written.
const reportsInterval = 10 * time.Minute

// storeUsage counts the artifacts in a store by the reports in it. The zero value knows none.
type storeUsage struct {
	// searching is held during a search for reports.
	searching sync.Mutex
	// mu protects the fields below.
	mu sync.Mutex
	// searched is when the reports were last searched.
	searched time.Time
	// folders has the artifacts of each task, by its folder. owners and total are the sums of their bytes.
	folders map[string]folderUsage
	owners  map[string]int64
	total   int64
}

// folderUsage is what the artifacts of one task take.
type folderUsage struct {
	owner  string
	bytes  int64
	copied time.Time
	// running is true while the artifacts are copied.
	running bool
	// isOutput is true for stored output, whose folder is a file.
	isOutput bool
}

// put sets what a folder takes. The caller holds the lock.
func (u *storeUsage) put(folder string, f folderUsage) {
	if u.folders == nil {
		u.folders, u.owners = map[string]folderUsage{}, map[string]int64{}
	}
	u.drop(folder)
	u.folders[folder] = f
	u.owners[f.owner] += f.bytes
	u.total += f.bytes
}

// drop forgets a folder. The caller holds the lock.
func (u *storeUsage) drop(folder string) {
	f := u.folders[folder]
	delete(u.folders, folder)
	u.total -= f.bytes
	if u.owners[f.owner] -= f.bytes; u.owners[f.owner] == 0 {
		delete(u.owners, f.owner)
	}
}

// start counts no artifacts of a task, or no output, because they are replaced. The caller calls end.
func (u *storeUsage) start(folder, owner string, isOutput bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.put(folder, folderUsage{owner: owner, running: true, isOutput: isOutput})
}

// addFile counts a file of a running copy. The oldest output makes room for it: the caller removes the files that are returned,
// also with an error. It returns a *limitError if the owner may have no more, and another error if the store is full, which
// the operator can change.
func (u *storeUsage) addFile(folder, name string, bytes int64, limits *Limits) (removed []string, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f := u.folders[folder]
	if limits.Owner > 0 {
		removed = u.removeOldest(f.owner, u.owners[f.owner]+bytes-limits.Owner)
		if own := u.owners[f.owner] + bytes; own > limits.Owner {
			return removed, &limitError{fmt.Sprintf("with %s the artifacts of %s have %d bytes, more than the limit of %d of one owner: the rest is left out; "+
				"ask the operator to remove old ones", name, f.owner, own, limits.Owner)}
		}
	}
	if limits.Total > 0 {
		removed = append(removed, u.removeOldest("", u.total+bytes-limits.Total)...)
		if total := u.total + bytes; total > limits.Total {
			return removed, fmt.Errorf("with %s the store of artifacts has %d bytes, more than its limit of %d: remove old ones, or raise --artifacts-total-size",
				name, total, limits.Total)
		}
	}
	f.bytes += bytes
	u.put(folder, f)
	return removed, nil
}

// end ends a copy. A failed one is forgotten: the next search finds what is left, unless nothing was written.
func (u *storeUsage) end(folder string, copied time.Time, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.drop(folder)
		if !errors.Is(err, ErrNoRoom) {
			u.searched = time.Time{}
		}
		return
	}
	f := u.folders[folder]
	f.running, f.copied = false, copied
	u.put(folder, f)
}

// searchReports brings the usage up to date with the reports in the storage, if the last search is reportsInterval ago. It reads
// only reports that it does not know.
func (s *Store) searchReports(ctx context.Context, now time.Time) error {
	u := &s.usage
	u.searching.Lock()
	defer u.searching.Unlock()
	u.mu.Lock()
	recent := now.Sub(u.searched) < reportsInterval && !u.searched.IsZero()
	u.mu.Unlock()
	if recent {
		return nil
	}
	names, err := s.storage.listReports(ctx)
	if err != nil {
		return fmt.Errorf("list reports of artifacts: %w", err)
	}
	found := map[string]folderUsage{}
	for _, name := range names {
		folder := strings.TrimSuffix(name, reportSuffix)
		u.mu.Lock()
		f, known := u.folders[folder]
		u.mu.Unlock()
		if !known {
			if f, err = s.readUsage(ctx, name); err != nil {
				return err
			}
		}
		found[folder] = f
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for folder, f := range u.folders {
		if _, ok := found[folder]; !ok && !f.running && !f.isOutput && f.copied.Before(now) { // others were copied during the search
			u.drop(folder)
		}
	}
	for folder, f := range found {
		if _, ok := u.folders[folder]; !ok {
			u.put(folder, f)
		}
	}
	u.searched = now
	return nil
}

// readUsage returns what a report lists: nothing if it was removed or is damaged.
func (s *Store) readUsage(ctx context.Context, name string) (f folderUsage, err error) {
	text, err := s.storage.readFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read report of artifacts: %w", err)
	}
	var r storedReport
	if json.Unmarshal(text, &r) == nil {
		f.owner, f.copied = r.Owner, r.Copied
		for _, a := range r.Files {
			f.bytes += a.Bytes
		}
	}
	return f, nil
}

// RemoveExpired removes the artifacts that were copied Limits.Keep ago.
func (s *Store) RemoveExpired(ctx context.Context, now time.Time) error {
	if s.limits.Keep == 0 {
		return nil
	}
	if err := s.searchReports(ctx, now); err != nil {
		return err
	}
	var expired []string
	u := &s.usage
	u.mu.Lock()
	for folder, f := range u.folders {
		if !f.running && !f.isOutput && now.Sub(f.copied) > s.limits.Keep {
			expired = append(expired, folder)
		}
	}
	u.mu.Unlock()
	for _, folder := range expired {
		if err := s.storage.remove(ctx, folder); err != nil {
			return fmt.Errorf("remove old artifacts %s: %w", folder, err)
		}
		u.mu.Lock()
		u.drop(folder)
		u.mu.Unlock()
	}
	return nil
}

// IsExpired reports whether the artifacts of a task that ended then are no longer kept.
func (s *Store) IsExpired(ended, now time.Time) bool {
	return s.limits.Keep > 0 && now.Sub(ended) > s.limits.Keep
}
