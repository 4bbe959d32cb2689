package clusterview

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// nestedFolder is the folder of nested containers in their executor's sandbox.
const nestedFolder = "containers"

// sandbox implements request.TaskSandbox.
type sandbox struct {
	client *master.Client
	// agentURL is the URL of the task's agent, folder the path by which it serves the sandbox.
	agentURL, folder string
}

// FindSandbox returns the sandbox of a task. A docker task has its executor's. That of a
// mesos task is the newest folder in the executor's folder of containers. Without a sandbox the error wraps request.ErrNoFile.
func (r *Reader) FindSandbox(ctx context.Context, t job.Task) (request.TaskSandbox, error) {
	s := &sandbox{r.Client, t.AgentURL, master.SandboxFilePath(r.Model.CurrentFrameworkID(), t.SandboxID(), "")}
	if r.Model.FindContainerizer(t.RunID()) == job.Docker {
		if _, err := r.Client.ListFiles(ctx, t.AgentURL, s.folder); err != nil {
			return nil, fileError(err)
		}
		return s, nil
	}
	folder := path.Join(s.folder, nestedFolder)
	list, err := r.Client.ListFiles(ctx, t.AgentURL, folder)
	if err != nil {
		return nil, fileError(err)
	}
	newest := -1
	for i, f := range list {
		if f.Mode.IsDir() && (newest < 0 || f.Modified.After(list[newest].Modified)) {
			newest = i
		}
	}
	if newest < 0 {
		return nil, fmt.Errorf("%w: the executor of %s has started no container", request.ErrNoFile, t.ID)
	}
	s.folder = path.Join(folder, list[newest].Name)
	return s, nil
}

func (s *sandbox) ListFiles(ctx context.Context, name string) ([]api.SandboxFile, error) {
	list, err := s.client.ListFiles(ctx, s.agentURL, path.Join(s.folder, name))
	if err != nil {
		return nil, fileError(err)
	}
	files := make([]api.SandboxFile, 0, len(list))
	for _, f := range list {
		files = append(files, api.SandboxFile{
			Name: f.Name, Folder: f.Mode.IsDir(), Special: !f.Mode.IsDir() && !f.Mode.IsRegular(), Bytes: f.Bytes,
			Mode: strconv.FormatUint(uint64(f.Mode.Perm()), 8), Modified: f.Modified,
		})
	}
	return files, nil
}

func (s *sandbox) ReadFile(ctx context.Context, name string, offset, length uint64) (data []byte, size uint64, err error) {
	data, size, err = s.client.ReadFile(ctx, s.agentURL, path.Join(s.folder, name), offset, length)
	return data, size, fileError(err)
}

// fileError adds the API's error to the one of the agent.
func fileError(err error) error {
	switch {
	case errors.Is(err, master.ErrNoFile):
		return fmt.Errorf("%w: %w", request.ErrNoFile, err)
	case errors.Is(err, master.ErrUnreadable):
		return fmt.Errorf("%w: %w", request.ErrUnreadable, err)
	}
	return err
}
