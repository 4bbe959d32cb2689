package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
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

// outputFiles are a container's stdout and stderr files.
type outputFiles struct{ stdout, stderr *os.File }

// close closes the agent's descriptors. The container has its own.
func (o outputFiles) close() { container.CloseFiles(o.stdout, o.stderr) }

// prepareSandbox opens a container's output files in a folder of the sandbox
// and fetches URIs into the folder. The caller closes the files.
func prepareSandbox(ctx context.Context, sandbox, folder string, user *syscall.Credential, uris []mesos.CommandInfo_URI, hosts job.FetchHosts) (outputFiles, error) {
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
// folder itself. It follows no link that leaves the sandbox, because tasks can
// create links there.
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
	if o.stdout, err = root.OpenFile(path.Join(folder, "stdout"), flags, 0o644); err != nil {
		return o, err
	}
	if o.stderr, err = root.OpenFile(path.Join(folder, "stderr"), flags, 0o644); err != nil {
		return o, err
	}
	if user == nil {
		return o, nil
	}
	uid, gid := int(user.Uid), int(user.Gid)
	return o, errors.Join(root.Chown(folder, uid, gid), o.stdout.Chown(uid, gid), o.stderr.Chown(uid, gid))
}
