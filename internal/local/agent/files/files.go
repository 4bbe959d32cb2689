// Package files serves the files of sandboxes. It resolves a path to a file and
// returns no data from outside the sandbox, whatever links a task has created.
package files

import (
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
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"
)

// MaxRead is the largest Read in bytes: 16 pages, as in Mesos.
const MaxRead = 16 * 4096

// Sentinel errors for the response status. Any other error is internal.
var (
	ErrNotFound = errors.New("no such file in a sandbox")
	ErrInvalid  = errors.New("not a file that can be read")
)

// SandboxFiles finds sandboxes below an agent's work directory.
type SandboxFiles struct {
	// Frameworks is the folder of the agent's frameworks. Its sandboxes are
	// FRAMEWORK/executors/EXECUTOR/runs/CONTAINER.
	Frameworks string
}

// latest is the name of the link to an executor's newest run.
const latest = "latest"

// splitPath splits a virtual (/frameworks/…) or real path into the sandbox's
// folder and the path below it.
func (s SandboxFiles) splitPath(name string) (sandbox, below string, err error) {
	clean := path.Clean("/" + name)
	rest, ok := strings.CutPrefix(clean, s.Frameworks+"/")
	if !ok {
		rest, ok = strings.CutPrefix(clean, "/frameworks/")
	}
	parts := strings.SplitN(rest, "/", 6)
	if !ok || len(parts) < 5 || parts[1] != "executors" || parts[3] != "runs" {
		return "", "", fmt.Errorf("path %s: want /frameworks/ID/executors/ID/runs/latest/…: %w", name, ErrNotFound)
	}
	run := filepath.Join(s.Frameworks, parts[0], "executors", parts[2], "runs")
	container := parts[4]
	if container == latest {
		target, err := os.Readlink(filepath.Join(run, latest))
		if err != nil {
			return "", "", fmt.Errorf("path %s: %w", name, ErrNotFound)
		}
		container = filepath.Base(target)
	}
	below = "."
	if len(parts) == 6 {
		below = parts[5]
	}
	return filepath.Join(run, container), below, nil
}

// openFile opens a file or folder of a sandbox. It follows links, including
// absolute ones, whose target is inside the sandbox.
func (s SandboxFiles) openFile(name string) (*os.File, error) {
	sandbox, below, err := s.splitPath(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return nil, fmt.Errorf("path %s: %w", name, ErrNotFound)
	}
	defer root.Close()
	f, err := openPlain(root, below)
	if err == nil {
		return f, nil
	}
	// os.Root rejects absolute links. If the link's target is inside the
	// sandbox, os.Root opens and checks the target's path.
	if inside, ok := resolveLinks(sandbox, below); ok {
		f, err = openPlain(root, inside)
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("path %s: %w", name, ErrNotFound)
	}
	return nil, fmt.Errorf("path %s: %w: %w", name, ErrInvalid, err)
}

// openPlain opens a regular file or folder and rejects everything else: a task
// may have created a device node, and opening some devices has side effects.
func openPlain(root *os.Root, name string) (*os.File, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, fmt.Errorf("%s is neither a file nor a folder", name)
	}
	// If a pipe has replaced the file meanwhile, O_NONBLOCK keeps the open from
	// waiting for a writer.
	return root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
}

func resolveLinks(sandbox, below string) (string, bool) {
	real, err := filepath.EvalSymlinks(filepath.Join(sandbox, below))
	if err != nil {
		return "", false
	}
	root, err := filepath.EvalSymlinks(sandbox)
	if err != nil {
		return "", false
	}
	inside, err := filepath.Rel(root, real)
	return inside, err == nil && filepath.IsLocal(inside)
}

// Read returns the file's size and up to length bytes from offset. A nil length
// means MaxRead, which is also the maximum. Beyond the end of the file it
// returns no data.
func (s SandboxFiles) Read(name string, offset uint64, length *uint64) (size uint64, data []byte, err error) {
	f, err := s.openFile(name)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return 0, nil, fmt.Errorf("path %s is no regular file: %w", name, ErrInvalid)
	}
	size = uint64(info.Size())
	if offset >= size {
		return size, []byte{}, nil
	}
	want := min(size-offset, MaxRead)
	if length != nil {
		want = min(want, *length)
	}
	data = make([]byte, want)
	n, err := f.ReadAt(data, int64(offset))
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, fmt.Errorf("read %s: %w", name, err)
	}
	return size, data[:n], nil
}

// List describes the entries of a folder. As in Mesos it follows links, omits entries
// that it cannot follow, and returns no entries for a file.
func (s SandboxFiles) List(name string) ([]mesos.FileInfo, error) {
	sandbox, below, err := s.splitPath(name)
	if err != nil {
		return nil, err
	}
	folder, err := s.openFile(name)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	names, err := folder.Readdirnames(-1)
	if err != nil {
		return nil, nil // it is a file
	}
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return nil, fmt.Errorf("path %s: %w", name, ErrNotFound)
	}
	defer root.Close()
	slices.Sort(names)
	var list []mesos.FileInfo
	for _, entry := range names {
		info, err := statEntry(root, sandbox, path.Join(below, entry))
		if err != nil {
			continue // a link out of the sandbox, or to nothing
		}
		list = append(list, describeEntry(filepath.Join(sandbox, below, entry), info))
	}
	return list, nil
}

// statEntry follows links to targets inside the sandbox, also absolute ones.
func statEntry(root *os.Root, sandbox, below string) (fs.FileInfo, error) {
	info, err := root.Stat(below)
	if err == nil {
		return info, nil
	}
	inside, ok := resolveLinks(sandbox, below)
	if !ok {
		return nil, err
	}
	return root.Stat(inside)
}

func describeEntry(name string, info fs.FileInfo) mesos.FileInfo {
	size := uint64(info.Size())
	f := mesos.FileInfo{Path: name, Size_: &size, Mtime: &mesos.TimeInfo{Nanoseconds: info.ModTime().UnixNano()}}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		links, uid, gid := int32(s.Nlink), strconv.Itoa(int(s.Uid)), strconv.Itoa(int(s.Gid))
		f.Nlink, f.Mode, f.UID, f.GID = &links, &s.Mode, &uid, &gid
	}
	return f
}
