// Package workdirstore keeps the archives of working folders on the scheduler's disk, by
// their digests, with the users who have uploaded them. With a token of one run of a job,
// agents may fetch its archive. A digest is a name and no right: callers of Find and Open
// check first that the requester may use the archive.
package workdirstore

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mesos-gpu/framework/workdir"
	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/job"
)

// Errors of an ArchiveStore.
var (
	// ErrUnknown means that no archive of that digest is stored.
	ErrUnknown = errors.New("not in the scheduler's store")
	// ErrInvalid means that what was uploaded is not an archive of that digest within the bounds.
	ErrInvalid = errors.New("not stored")
	// ErrFull means that archives which must be kept use the whole size of the store.
	ErrFull = errors.New("the store of working folders is full")
)

const (
	archiveSuffix = ".tar.gz"
	// uploadersSuffix ends the name of an archive's folder of uploaders: an empty file for each user who has uploaded the
	// archive, named by a digest of the user's name.
	uploadersSuffix = ".uploaders"
	// keyFile is the file in the store's folder with the key of the tokens, of keyBytes bytes.
	keyFile  = "key"
	keyBytes = 32
	// graceTime protects an archive after its last use, so that a client can submit the
	// job that names it. An unfinished upload is removed after this time.
	graceTime = 10 * time.Minute
	// maxUploads bounds the uploads at a time, each of which occupies disk space.
	maxUploads = 8
)

// ArchiveStore stores archives in a folder, as DIGEST.tar.gz, and their uploaders in DIGEST.uploaders. Several schedulers
// may share the folder. The time of an archive's file is when it was last used.
type ArchiveStore struct {
	// folder is created with the first archive. maxBytes bounds the sum of the archives.
	folder   string
	maxBytes int64
	// keep is how long an archive that no live job uses is kept after its last use.
	keep time.Duration
	// uploads has an element for each upload in progress.
	uploads chan struct{}

	// mu serializes changes of the folder, and protects key, which is nil before its first use.
	mu  sync.Mutex
	key []byte
}

// NewArchiveStore returns a store in a folder, which need not exist.
func NewArchiveStore(folder string, maxBytes int64, keep time.Duration) *ArchiveStore {
	return &ArchiveStore{folder: folder, maxBytes: maxBytes, keep: keep, uploads: make(chan struct{}, maxUploads)}
}

// Folder returns the store's folder, for messages.
func (s *ArchiveStore) Folder() string { return s.folder }

func (s *ArchiveStore) archivePath(digest string) string {
	return filepath.Join(s.folder, strings.TrimPrefix(digest, job.WorkdirPrefix)+archiveSuffix)
}

// UnknownError returns ErrUnknown with the digest. It is also the error for an archive that a requester may not use, from
// whom it must not differ.
func (s *ArchiveStore) UnknownError(digest string) error {
	return fmt.Errorf("working folder %q: %w %s", digest, ErrUnknown, s.folder)
}

// Find returns the size of an archive and keeps it for the grace time. It returns
// ErrUnknown, wrapped, if it is not stored.
func (s *ArchiveStore) Find(digest string, now time.Time) (bytes int64, err error) {
	if !job.IsWorkdirDigest(digest) {
		return 0, s.UnknownError(digest)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.archivePath(digest))
	if err == nil {
		err = os.Chtimes(s.archivePath(digest), now, now)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, s.UnknownError(digest)
	}
	if err != nil {
		return 0, fmt.Errorf("find working folder: %w", err)
	}
	return info.Size(), nil
}

// uploaderPath returns the file that records an uploader of an archive.
func (s *ArchiveStore) uploaderPath(digest, uploader string) string {
	name := sha256.Sum256([]byte(uploader))
	return filepath.Join(uploadersPath(s.archivePath(digest)), hex.EncodeToString(name[:]))
}

// uploadersPath returns the folder of an archive's uploaders.
func uploadersPath(archive string) string {
	return strings.TrimSuffix(archive, archiveSuffix) + uploadersSuffix
}

// IsUploader reports whether a user has uploaded the archive.
func (s *ArchiveStore) IsUploader(digest, uploader string) bool {
	if !job.IsWorkdirDigest(digest) {
		return false
	}
	_, err := os.Stat(s.uploaderPath(digest, uploader))
	return err == nil
}

// addUploader records an uploader of an archive. The caller has the lock.
func (s *ArchiveStore) addUploader(digest, uploader string) error {
	path := s.uploaderPath(digest, uploader)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("store the uploader of a working folder: %w", err)
	}
	return atomicfile.Write(path, nil, 0o600)
}

// Open opens an archive for reading. It returns ErrUnknown, wrapped, if it is not stored.
func (s *ArchiveStore) Open(digest string) (*os.File, error) {
	if !job.IsWorkdirDigest(digest) {
		return nil, s.UnknownError(digest)
	}
	f, err := os.Open(s.archivePath(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.UnknownError(digest)
	}
	return f, err
}

// Put stores an archive of an uploader. It removes archives that are not used to make room. used
// returns the digests that live jobs name. created is false if this uploader has stored the archive
// before. The result does not depend on what other users have uploaded: they must not learn which
// contents exist. The archive is received into a temporary file without the lock, so that a slow
// client delays no others; the rename makes it visible as a whole. More than maxUploads callers wait
// until ctx ends.
func (s *ArchiveStore) Put(
	ctx context.Context, uploader, digest string, archive io.Reader, now time.Time, used func() (map[string]bool, error),
) (created bool, err error) {
	if !job.IsWorkdirDigest(digest) {
		return false, fmt.Errorf("%w: %q is no digest: %s is followed by 64 hexadecimal digits in lower case", ErrInvalid, digest, job.WorkdirPrefix)
	}
	select {
	case s.uploads <- struct{}{}:
		defer func() { <-s.uploads }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if err := s.makeFolder(); err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(s.folder, atomicfile.TempPrefix+"*")
	if err != nil {
		return false, fmt.Errorf("store working folder: %w", err)
	}
	defer os.Remove(temp.Name()) // it does not exist after the rename
	size, err := receiveArchive(temp, digest, archive)
	if err = errors.Join(err, temp.Close()); err != nil {
		return false, err
	}
	live, err := used()
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.archivePath(digest)
	_, absent := os.Stat(path)
	created = absent != nil || !s.IsUploader(digest, uploader)
	if created {
		if err := s.makeRoom(size, now, live); err != nil {
			return false, err
		}
		if err := os.Rename(temp.Name(), path); err != nil {
			return false, fmt.Errorf("store working folder: %w", err)
		}
		if err := s.addUploader(digest, uploader); err != nil {
			return false, err
		}
	}
	return created, errors.Join(os.Chtimes(path, now, now), atomicfile.SyncDir(s.folder))
}

// receiveArchive writes and checks an archive, and returns its size.
func receiveArchive(to *os.File, digest string, archive io.Reader) (int64, error) {
	sum := sha256.New()
	limited := &io.LimitedReader{R: archive, N: workdir.MaxArchiveBytes + 1}
	stored := &failingWriter{w: to}
	copied := io.TeeReader(limited, io.MultiWriter(stored, sum))
	err := workdir.CheckArchive(copied)
	if err == nil {
		_, err = io.Copy(io.Discard, copied)
	}
	size := workdir.MaxArchiveBytes + 1 - limited.N
	switch {
	case stored.err != nil:
		return 0, fmt.Errorf("store working folder: %w", stored.err)
	case limited.N == 0:
		return 0, fmt.Errorf("%w: %w", ErrInvalid, &workdir.SizeError{Have: size, Limit: workdir.MaxArchiveBytes, Unit: "bytes"})
	case err != nil:
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if got := job.WorkdirPrefix + hex.EncodeToString(sum.Sum(nil)); got != digest {
		return 0, fmt.Errorf("%w: the digest of what arrived is %s, not %s", ErrInvalid, got, digest)
	}
	return size, to.Sync()
}

// failingWriter remembers the error of a write: the archive's check reports it as an error of the archive, but the cause
// is the scheduler's disk and not the sender.
type failingWriter struct {
	w   io.Writer
	err error
}

func (f *failingWriter) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err != nil {
		f.err = err
	}
	return n, err
}

// makeFolder creates the store's folder, unless it exists.
func (s *ArchiveStore) makeFolder() error {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return fmt.Errorf("make the folder for working folders: %w", err)
	}
	return nil
}

// storedArchive is a file of the store.
type storedArchive struct {
	path, digest string
	bytes        int64
	lastUse      time.Time
}

// remove removes the archive and its uploaders: the uploaders first, so that none is left without its archive.
func (a *storedArchive) remove() error {
	if err := os.RemoveAll(uploadersPath(a.path)); err != nil {
		return err
	}
	if err := os.Remove(a.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// listArchives returns the archives, the one that was used least recently first. It
// removes temporary files that crashed uploads have left. The caller has the lock.
func (s *ArchiveStore) listArchives(now time.Time) (list []storedArchive, err error) {
	entries, err := os.ReadDir(s.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(s.folder, e.Name())
		info, err := e.Info()
		if err != nil {
			continue // another scheduler has removed it
		}
		digest, ok := strings.CutSuffix(e.Name(), archiveSuffix)
		digest = job.WorkdirPrefix + digest
		switch {
		case ok && job.IsWorkdirDigest(digest):
			list = append(list, storedArchive{name, digest, info.Size(), info.ModTime()})
		case strings.HasPrefix(e.Name(), atomicfile.TempPrefix) && now.Sub(info.ModTime()) > graceTime:
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
	}
	slices.SortFunc(list, func(a, b storedArchive) int { return a.lastUse.Compare(b.lastUse) })
	return list, nil
}

// makeRoom removes archives that no live job uses, those used least recently first,
// until size more bytes fit. It returns ErrFull, wrapped, if they do not. The caller has the lock.
func (s *ArchiveStore) makeRoom(size int64, now time.Time, live map[string]bool) error {
	list, err := s.listArchives(now)
	if err != nil {
		return fmt.Errorf("list working folders: %w", err)
	}
	total := size
	for _, a := range list {
		total += a.bytes
	}
	for _, a := range list {
		if total <= s.maxBytes {
			break
		}
		if live[a.digest] || now.Sub(a.lastUse) < graceTime {
			continue
		}
		if err := a.remove(); err != nil {
			return fmt.Errorf("remove working folder: %w", err)
		}
		total -= a.bytes
	}
	if total > s.maxBytes {
		return fmt.Errorf("%w: with this one of %s it would have %s, more than its limit of %s, and live jobs or uploads of the last %s use the others",
			ErrFull, workdir.FormatBytes(size), workdir.FormatBytes(total), workdir.FormatBytes(s.maxBytes), graceTime)
	}
	return nil
}

// RemoveUnused removes the archives that no live job uses and that were not used for
// longer than the store keeps them. It returns their number.
func (s *ArchiveStore) RemoveUnused(now time.Time, live map[string]bool) (removed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.listArchives(now)
	for _, a := range list {
		if live[a.digest] || now.Sub(a.lastUse) <= max(s.keep, graceTime) {
			continue
		}
		if e := a.remove(); e != nil {
			err = errors.Join(err, e)
			continue
		}
		removed++
	}
	if err != nil {
		err = fmt.Errorf("remove working folders: %w", err)
	}
	return removed, err
}

// Token returns the secret by which an agent fetches the archive of one run. It is derived from the key, so that each
// scheduler that has the key checks it without a record.
func (s *ArchiveStore) Token(run job.RunID, digest string) (string, error) {
	key, err := s.loadKey()
	if err != nil {
		return "", err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "workdir\x00%s\x00%s", run, digest)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// CheckToken reports whether a token belongs to the run and its archive.
func (s *ArchiveStore) CheckToken(run job.RunID, digest, token string) bool {
	want, err := s.Token(run, digest)
	return err == nil && hmac.Equal([]byte(want), []byte(token))
}

// loadKey returns the key of the tokens. It creates the key once; schedulers that share
// the folder use the same.
func (s *ArchiveStore) loadKey() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	if err := s.makeFolder(); err != nil {
		return nil, err
	}
	name := filepath.Join(s.folder, keyFile)
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = createKey(s.folder, name)
	}
	if err == nil && len(key) != keyBytes {
		err = fmt.Errorf("%s has %d bytes, not %d: remove it", name, len(key), keyBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("key of the working folders: %w", err)
	}
	s.key = key
	return key, nil
}

// createKey creates the key's file, or returns the key that another scheduler has
// created meanwhile.
func createKey(folder, name string) ([]byte, error) {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	temp := filepath.Join(folder, atomicfile.TempPrefix+rand.Text())
	if err := atomicfile.Write(temp, key, 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(name)
}
