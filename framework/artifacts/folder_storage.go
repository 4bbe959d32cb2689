package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/atomicfile"
)

// folderStorage is a folder of this machine. All access is by os.Root or by paths that Store has made: the names of
// files come from tasks.
type folderStorage struct{ root string }

func (s folderStorage) readFile(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.root, name))
}

func (s folderStorage) writeFile(_ context.Context, name string, text []byte) error {
	target := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(target, text, 0o600)
}

// newUpload creates an empty temporary folder next to the target, in place of one that a crash has left.
func (s folderStorage) newUpload(_ context.Context, folder string) (upload, error) {
	target := filepath.Join(s.root, folder)
	temp := filepath.Join(filepath.Dir(target), atomicfile.TempPrefix+filepath.Base(target))
	if err := errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o700)); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(temp)
	if err != nil {
		return nil, err
	}
	return &folderUpload{root, temp, target}, nil
}

// folderUpload is a temporary folder next to the one that it replaces.
type folderUpload struct {
	root         *os.Root
	temp, target string
}

func (u *folderUpload) makeFolder(name string) error { return u.root.MkdirAll(name, 0o755) }

func (u *folderUpload) writeFile(_ context.Context, name string, from io.Reader, _ int64) (err error) {
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	out, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	sparse := &sparseWriter{file: out}
	if _, err := io.Copy(sparse, from); err != nil {
		return err
	}
	return out.Truncate(sparse.size) // the file may end with a hole
}

// holeBytes is the size and the alignment of the holes that a sparseWriter leaves, a block of common file systems.
const holeBytes = 4096

// sparseWriter writes a new file and leaves blocks of zeros as holes: a sparse file of a task takes no more of the store's disk
// than it took in the sandbox. The caller truncates the file to size in the end.
type sparseWriter struct {
	file *os.File
	// size counts the bytes so far.
	size int64
}

func (w *sparseWriter) Write(data []byte) (n int, err error) {
	for n < len(data) {
		part := data[n:min(len(data), n+holeBytes-int(w.size%holeBytes))]
		if !isZero(part) {
			if _, err := w.file.WriteAt(part, w.size); err != nil {
				return n, err
			}
		}
		n, w.size = n+len(part), w.size+int64(len(part))
	}
	return n, nil
}

func isZero(data []byte) bool { return len(bytes.TrimLeft(data, "\x00")) == 0 }

// commit replaces the folder. After a crash between the two steps there is no folder and no report that names this task:
// the artifacts are copied again.
func (u *folderUpload) commit() error {
	return errors.Join(os.RemoveAll(u.target), os.Rename(u.temp, u.target))
}

func (u *folderUpload) close() {
	_ = u.root.Close()
	_ = os.RemoveAll(u.temp) // it does not exist after the rename
}

func (s folderStorage) listReports(context.Context) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(s.root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // nothing was copied, or the operator removes it now
		case err != nil:
			return err
		case entry.IsDir() && (strings.Count(name, "/") == 2 || name == outputFolder):
			return fs.SkipDir // the artifacts of a task, or output
		case isReport(name):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

func (s folderStorage) remove(_ context.Context, folder string) error {
	target := filepath.Join(s.root, folder)
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.Remove(target + reportSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	run := filepath.Dir(target)
	_, _ = os.Remove(run), os.Remove(filepath.Dir(run)) // if they are empty
	return nil
}

func (s folderStorage) listFiles(_ context.Context, folder string) (files []storedFile, err error) {
	entries, err := os.ReadDir(filepath.Join(s.root, folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() { // else the operator has removed it
			files = append(files, storedFile{name: e.Name(), bytes: info.Size(), modified: info.ModTime()})
		}
	}
	return files, nil
}

func (s folderStorage) removeFile(_ context.Context, name string) error {
	if err := os.Remove(filepath.Join(s.root, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s folderStorage) openSandbox(folder string) request.TaskSandbox {
	return storedSandbox{filepath.Join(s.root, folder)}
}

// storedSandbox serves the copied artifacts of a task like its sandbox.
type storedSandbox struct{ folder string }

// storedError marks the error about a missing file as request.ErrNoFile.
func storedError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", request.ErrNoFile, err)
	}
	return err
}

func (s storedSandbox) ListFiles(_ context.Context, name string) ([]api.SandboxFile, error) {
	root, err := os.OpenRoot(s.folder)
	if err != nil {
		return nil, storedError(err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, storedError(err)
	}
	if !info.IsDir() {
		return nil, nil
	}
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return nil, storedError(err)
	}
	files := make([]api.SandboxFile, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // the operator has removed it
		}
		files = append(files, api.SandboxFile{
			Name: e.Name(), Folder: e.IsDir(), Special: !e.IsDir() && !info.Mode().IsRegular(), Bytes: info.Size(),
			Mode: strconv.FormatUint(uint64(info.Mode().Perm()), 8), Modified: info.ModTime().UTC(),
		})
	}
	return files, nil
}

func (s storedSandbox) ReadFile(_ context.Context, name string, offset, length uint64) (data []byte, size uint64, err error) {
	root, err := os.OpenRoot(s.folder)
	if err != nil {
		return nil, 0, storedError(err)
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, 0, storedError(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, request.ErrUnreadable
	}
	size = uint64(info.Size())
	data = make([]byte, min(length, readSize, size-min(offset, size)))
	n, err := f.ReadAt(data, int64(min(offset, size)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	return data[:n], size, nil
}
