// Package workdir packs the working folders of clients into archives, and checks
// archives that clients upload. The bytes of an archive depend only on the names, modes
// and contents of the folder's files, so that an unchanged folder is uploaded once.
package workdir

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Bounds of a working folder.
const (
	// MaxBytes bounds the sum of its files, MaxFiles the number of files, folders and links.
	MaxBytes = 512 << 20
	MaxFiles = 50_000
	// MaxArchiveBytes bounds the archive: gzip and tar make incompressible files larger.
	MaxArchiveBytes = MaxBytes + MaxBytes/8 + MaxFiles*1024
	// maxPathBytes and maxPathDepth bound the path of a file in the folder.
	maxPathBytes, maxPathDepth = 4096, 100
)

// reservedName matches names in the sandbox that belong to the agent and the executor.
var reservedName = regexp.MustCompile(`^(stdout|stderr)(\.[0-9]+)?$|^executor\.log(\.[0-9]+)?$|^` +
	regexp.QuoteMeta(gpu.UsageFile) + `$|^` + regexp.QuoteMeta(job.WorkdirArchive) + `$`)

// checkPath returns an error for a path that an archive must not contain.
func checkPath(name string) error {
	switch {
	case name == "" || name == "." || path.IsAbs(name) || path.Clean(name) != name || name == ".." ||
		strings.HasPrefix(name, "../") || strings.Contains(name, "\x00"):
		return fmt.Errorf("%q is not a plain path in the folder", name)
	case len(name) > maxPathBytes || strings.Count(name, "/") >= maxPathDepth:
		return fmt.Errorf("%.40q… has %d bytes in %d folders, at most %d in %d are possible", name, len(name), strings.Count(name, "/"), maxPathBytes, maxPathDepth)
	case reservedName.MatchString(name):
		return fmt.Errorf("%s is the name of a file that a task's sandbox has already: rename it, or exclude it in %s", name, IgnoreFile)
	}
	return nil
}

// SizeError reports a folder above a bound.
type SizeError struct {
	// Have is the number so far, Limit the bound; Unit names the counted objects.
	Have, Limit int64
	Unit        string
}

func (e *SizeError) Error() string {
	if e.Unit == "bytes" {
		return fmt.Sprintf("the working folder has at least %s, more than the limit of %s: exclude what the job does not need in %s",
			FormatBytes(e.Have), FormatBytes(e.Limit), IgnoreFile)
	}
	return fmt.Sprintf("the working folder has at least %d %s, more than the limit of %d: exclude what the job does not need in %s",
		e.Have, e.Unit, e.Limit, IgnoreFile)
}

// FormatBytes returns a number of bytes in MiB.
func FormatBytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// folderSize counts what is in an archive. Packing and checking use it, so that the bounds of both are the same.
type folderSize struct {
	files int
	bytes int64
}

// addEntry counts an entry of so many bytes. It returns a *SizeError above a bound.
func (s *folderSize) addEntry(bytes int64) error {
	if bytes < 0 {
		return errors.New("a size is negative")
	}
	s.files++
	s.bytes += min(bytes, MaxBytes+1)
	switch {
	case s.files > MaxFiles:
		return &SizeError{int64(s.files), MaxFiles, "files"}
	case s.bytes > MaxBytes:
		return &SizeError{s.bytes, MaxBytes, "bytes"}
	}
	return nil
}
