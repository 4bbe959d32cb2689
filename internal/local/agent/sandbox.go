package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/fetch"
	"mesos-gpu/internal/local/agent/image"
	"mesos-gpu/job"
)

// resolveUser returns the user of a command: the first non-empty name, or the
// framework's user. An agent without isolation always uses its own user.
func (a *EmbeddedAgent) resolveUser(names ...string) (*syscall.Credential, error) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if name == "root" || !a.cfg.Root {
			return nil, nil
		}
		return image.LookupUser("/", name)
	}
	return nil, nil
}

// makeRunsFolder creates the folder with the sandboxes of an executor's runs. Other users
// cannot enter it.
func makeRunsFolder(runs string) error {
	if err := os.MkdirAll(filepath.Dir(runs), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(runs, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// openRunsTo lets a process of another user enter the folder with the sandboxes of its
// executor's runs, but not list it. The user does not become its owner, who could replace
// a sandbox by a link that the agent follows. What is in a sandbox is closed to others by
// openOutput. A nil user is the agent's.
func openRunsTo(runs string, user *syscall.Credential) error {
	if user == nil {
		return nil
	}
	if err := os.Chmod(runs, 0o711); err != nil {
		return fmt.Errorf("open sandbox to user %d: %w", user.Uid, err)
	}
	return nil
}

// outputFiles are a container's stdout and stderr files.
type outputFiles struct{ stdout, stderr *os.File }

// close closes the agent's descriptors. The container has its own.
func (o outputFiles) close() { container.CloseFiles(o.stdout, o.stderr) }

// prepareSandbox opens a container's output files in a folder of the sandbox
// and fetches URIs into the folder. The caller closes the files.
func prepareSandbox(
	ctx context.Context, sandbox, folder string, user *syscall.Credential, uris []mesos.CommandInfo_URI,
	hosts job.FetchHosts,
) (outputFiles, error) {
	out, err := openOutput(sandbox, folder, user)
	if err != nil {
		return out, err
	}
	if err := fetch.FetchAll(ctx, sandbox, folder, uris, user, hosts); err != nil {
		out.close()
		return out, err
	}
	return out, nil
}

// openOutput creates stdout and stderr in a folder of the sandbox, and the
// folder itself. Other users cannot read them. It follows no link that leaves the
// sandbox, because tasks can create links there.
func openOutput(sandbox, folder string, user *syscall.Credential) (o outputFiles, err error) {
	defer func() {
		if err != nil {
			o.close()
			err = fmt.Errorf("make sandbox: %w", err)
		}
	}()
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return o, err
	}
	defer root.Close()
	if err := root.MkdirAll(folder, 0o755); err != nil {
		return o, err
	}
	// Without O_NONBLOCK, opening a named pipe that a task created would block.
	const flags = os.O_CREATE | os.O_APPEND | os.O_WRONLY | unix.O_NONBLOCK
	if o.stdout, err = root.OpenFile(path.Join(folder, "stdout"), flags, 0o640); err != nil {
		return o, err
	}
	if o.stderr, err = root.OpenFile(path.Join(folder, "stderr"), flags, 0o640); err != nil {
		return o, err
	}
	if user == nil {
		return o, nil
	}
	uid, gid := int(user.Uid), int(user.Gid)
	if folder != "." { // the executor opens its sandbox to its tasks
		err = root.Chmod(folder, 0o700)
	}
	return o, errors.Join(err, root.Chown(folder, uid, gid), o.stdout.Chown(uid, gid), o.stderr.Chown(uid, gid))
}
