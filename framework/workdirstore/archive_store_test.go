package workdirstore

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/workdir"
	"mesos-gpu/job"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// packText returns the archive of a folder with one file.
func packText(t *testing.T, text string) (digest string, archive []byte) {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := workdir.Pack(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if archive, err = io.ReadAll(p.Reader()); err != nil {
		t.Fatal(err)
	}
	return p.Digest, archive
}

// using returns the digests that live jobs name.
func using(digests ...string) func() (map[string]bool, error) {
	return func() (map[string]bool, error) {
		live := map[string]bool{}
		for _, d := range digests {
			live[d] = true
		}
		return live, nil
	}
}

func (s *ArchiveStore) mustPut(t *testing.T, text string, now time.Time, live ...string) string {
	t.Helper()
	digest, archive := packText(t, text)
	if _, err := s.Put(t.Context(), "alice", digest, bytes.NewReader(archive), now, using(live...)); err != nil {
		t.Fatal(err)
	}
	return digest
}

func (s *ArchiveStore) hasArchive(digest string) bool {
	_, err := os.Stat(s.archivePath(digest))
	return err == nil
}

func TestPutStoresOnce(t *testing.T) {
	s := NewArchiveStore(filepath.Join(t.TempDir(), "a", "store"), 1<<20, time.Hour)
	digest, archive := packText(t, "text")
	if _, err := s.Find(digest, start); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), s.Folder()) {
		t.Errorf("before: %v", err)
	}
	for i, want := range []bool{true, false} {
		created, err := s.Put(t.Context(), "alice", digest, bytes.NewReader(archive), start, using())
		if err != nil || created != want {
			t.Errorf("upload %d: created %t, %v", i, created, err)
		}
	}
	if size, err := s.Find(digest, start); err != nil || size != int64(len(archive)) {
		t.Errorf("found %d bytes, %v", size, err)
	}
	f, err := s.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, archive) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if info, err := os.Stat(s.Folder()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode: %v, %v", info.Mode(), err)
	}
}

// TestUploadersAreEqual checks that each user's first upload of a content is created, also if others have uploaded the same before,
// that other users are no uploaders, and that uploaders end with the archive. A full store rejects content that it has from another
// user too, since users must not learn what others have uploaded.
func TestUploadersAreEqual(t *testing.T) {
	digest, archive := packText(t, "text")
	s := NewArchiveStore(t.TempDir(), int64(2*len(archive)), time.Hour)
	put := func(uploader string) (bool, error) {
		return s.Put(t.Context(), uploader, digest, bytes.NewReader(archive), start, using())
	}
	for _, c := range []struct {
		uploader string
		created  bool
	}{{"alice", true}, {"alice", false}, {"bob", true}, {"bob", false}} {
		if created, err := put(c.uploader); err != nil || created != c.created {
			t.Errorf("upload of %s: created %t, %v; want %t", c.uploader, created, err, c.created)
		}
	}
	if !s.IsUploader(digest, "alice") || !s.IsUploader(digest, "bob") || s.IsUploader(digest, "carol") || s.IsUploader("../alice", "alice") {
		t.Error("the uploaders are not alice and bob")
	}
	s.maxBytes = int64(len(archive))
	if _, err := put("carol"); !errors.Is(err, ErrFull) {
		t.Errorf("a full store: %v", err)
	}
	if removed, err := s.RemoveUnused(start.Add(2*time.Hour), nil); err != nil || removed != 1 || s.IsUploader(digest, "alice") {
		t.Errorf("removed %d, %v; alice is an uploader: %t", removed, err, s.IsUploader(digest, "alice"))
	}
}

func TestPutRejectsWhatIsNotTheArchive(t *testing.T) {
	s := NewArchiveStore(t.TempDir(), 1<<20, time.Hour)
	digest, archive := packText(t, "text")
	_, other := packText(t, "other")
	for name, c := range map[string]struct {
		digest string
		data   []byte
	}{
		"other content": {digest, other}, "cut off": {digest, archive[:len(archive)-3]}, "more": {digest, append(archive[:len(archive):len(archive)], 0)},
		"a path": {"sha256:../../etc/passwd", archive}, "no digest": {"x", archive}, "upper case": {strings.ToUpper(digest), archive},
	} {
		if _, err := s.Put(t.Context(), "alice", c.digest, bytes.NewReader(c.data), start, using()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(s.Folder()); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestUnusedArchivesAreRemovedByAge(t *testing.T) {
	s := NewArchiveStore(t.TempDir(), 1<<20, 24*time.Hour)
	live, old, recent := s.mustPut(t, "live", start), s.mustPut(t, "old", start), s.mustPut(t, "recent", start)
	now := start.Add(25 * time.Hour)
	if _, err := s.Find(recent, now.Add(-time.Hour)); err != nil { // a use
		t.Fatal(err)
	}
	temp := filepath.Join(s.Folder(), ".new-1")
	if err := os.WriteFile(temp, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(temp, start, start); err != nil {
		t.Fatal(err)
	}
	removed, err := s.RemoveUnused(now, map[string]bool{live: true})
	if err != nil || removed != 1 || !s.hasArchive(live) || s.hasArchive(old) || !s.hasArchive(recent) {
		t.Errorf("removed %d, %v: live %t, old %t, recent %t", removed, err, s.hasArchive(live), s.hasArchive(old), s.hasArchive(recent))
	}
	if _, err := os.Stat(temp); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the rest of an upload: %v", err)
	}
	if _, err := NewArchiveStore(filepath.Join(t.TempDir(), "none"), 1, time.Hour).RemoveUnused(now, nil); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}

// TestFullStoreMakesRoom checks that a new archive replaces the unused one of longest ago, and
// never one that a live job names or that was just uploaded.
func TestFullStoreMakesRoom(t *testing.T) {
	_, archive := packText(t, "1")
	s := NewArchiveStore(t.TempDir(), int64(3*len(archive)), time.Hour)
	live, first, second := s.mustPut(t, "1", start), s.mustPut(t, "2", start), s.mustPut(t, "3", start.Add(time.Second))
	digest, data := packText(t, "4")
	if _, err := s.Put(t.Context(), "alice", digest, bytes.NewReader(data), start.Add(time.Minute), using(live)); !errors.Is(err, ErrFull) ||
		!strings.Contains(err.Error(), "more than its limit of") {
		t.Errorf("soon after the uploads: %v", err)
	}
	later := s.mustPut(t, "4", start.Add(time.Hour), live)
	if !s.hasArchive(live) || s.hasArchive(first) || !s.hasArchive(second) || !s.hasArchive(later) {
		t.Errorf("live %t, first %t, second %t, later %t", s.hasArchive(live), s.hasArchive(first), s.hasArchive(second), s.hasArchive(later))
	}
}

// TestTokensAreBoundToRuns checks that a token is valid for one run and one archive, also for
// another scheduler with the same folder, and for no other folder.
func TestTokensAreBoundToRuns(t *testing.T) {
	s := NewArchiveStore(t.TempDir(), 1, time.Hour)
	run, digest := job.RunID{Name: "train", Run: 2}, job.WorkdirPrefix+strings.Repeat("a", 64)
	token, err := s.Token(run, digest)
	if err != nil || len(token) < 40 {
		t.Fatalf("token %q, %v", token, err)
	}
	if !s.CheckToken(run, digest, token) || !NewArchiveStore(s.Folder(), 1, time.Hour).CheckToken(run, digest, token) {
		t.Error("the token is not valid")
	}
	if s.CheckToken(job.RunID{Name: "train", Run: 3}, digest, token) ||
		s.CheckToken(run, job.WorkdirPrefix+strings.Repeat("b", 64), token) || s.CheckToken(run, digest, "") {
		t.Error("the token is valid for another run or archive")
	}
	if NewArchiveStore(t.TempDir(), 1, time.Hour).CheckToken(run, digest, token) {
		t.Error("the token is valid for another store")
	}
	if info, err := os.Stat(filepath.Join(s.Folder(), keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info, err)
	}
}
