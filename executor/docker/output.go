package docker

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/sirupsen/logrus"
)

// output copies a container's output into the sandbox.
type output struct {
	conn   types.HijackedResponse
	copied chan struct{} // closed once all is copied
}

// attach opens the sandbox's stdout and stderr and starts to copy.
func attach(ctx context.Context, engine *client.Client, id, sandbox string, log logrus.FieldLogger) (*output, error) {
	stdout, err := appendTo(sandbox, "stdout")
	if err != nil {
		return nil, err
	}
	stderr, err := appendTo(sandbox, "stderr")
	if err != nil {
		stdout.Close()
		return nil, err
	}
	conn, err := engine.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		stdout.Close()
		stderr.Close()
		return nil, fmt.Errorf("attach to container: %w", err)
	}
	o := &output{conn: conn, copied: make(chan struct{})}
	go func() {
		defer close(o.copied)
		defer stdout.Close()
		defer stderr.Close()
		if _, err := stdcopy.StdCopy(stdout, stderr, conn.Reader); err != nil {
			log.WithError(err).Warn("copying the task's output ended early")
		}
		// What cannot be written any more (a full disk) is still read:
		// otherwise the task would stop at its next line.
		_, _ = io.Copy(io.Discard, conn.Reader)
	}()
	return o, nil
}

func appendTo(sandbox, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(sandbox, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open task output: %w", err)
	}
	return file, nil
}

// drain waits until all output is in the files, or for so long.
func (o *output) drain(limit time.Duration) {
	select {
	case <-o.copied:
	case <-time.After(limit):
	}
}

// close ends the copying and waits for its end.
func (o *output) close() {
	o.conn.Close()
	<-o.copied
}
