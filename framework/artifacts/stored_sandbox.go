package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/job"
)

// storedSandbox serves the copied artifacts of a task like its sandbox.
type storedSandbox struct{ folder string }

// FindSandbox returns the copied artifacts of a task, which are read like its sandbox. It
// returns nil if there are none.
func (s *Store) FindSandbox(t *job.Task) apiserver.TaskSandbox {
	if r, err := s.FindReport(t); err != nil || r == nil || len(r.Files) == 0 {
		return nil
	}
	return storedSandbox{filepath.Join(s.folder, taskFolder(t))}
}

func storedError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", apiserver.ErrNoFile, err)
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
		return nil, 0, apiserver.ErrUnreadable
	}
	size = uint64(info.Size())
	data = make([]byte, min(length, readSize, size-min(offset, size)))
	n, err := f.ReadAt(data, int64(min(offset, size)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	return data[:n], size, nil
}
