package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	dockerimage "github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"mesos-gpu/executor/task"
)

// pullStallTimeout is how long a pull may take without progress.
const pullStallTimeout = 2 * time.Minute

// ensureImage returns the image. It pulls the image if the engine does not
// have it or the task forces a pull.
func (rt *EngineRuntime) ensureImage(ctx context.Context, engine *client.Client, t task.TaskSpec) (dockerimage.InspectResponse, error) {
	name := t.Image
	got, err := engine.ImageInspect(ctx, name)
	fresh := t.MesosContainer.GetDocker().GetForcePullImage()
	if err == nil && !fresh {
		return got, nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return got, fmt.Errorf("inspect image %s: %w", name, err)
	}
	rt.Log.WithField("image", name).Info("pulling image")
	if err := rt.pullWithCredentials(ctx, engine, t); err != nil {
		why := "is not on this agent"
		if fresh {
			why = "must be pulled again (force_pull_image)"
		}
		return got, fmt.Errorf("image %s %s and cannot be pulled: %w: docker load it there, or name an image that its registry has", name, why, err)
	}
	got, err = engine.ImageInspect(ctx, name)
	if err != nil {
		return got, fmt.Errorf("inspect pulled image %s: %w", name, err)
	}
	return got, nil
}

// pullWithCredentials pulls an image with the credentials found for its
// registry. If the registry denies access, the error names the credentials, or
// where to put them.
func (rt *EngineRuntime) pullWithCredentials(ctx context.Context, engine *client.Client, t task.TaskSpec) error {
	auth, err := rt.findCredentials(ctx, t)
	if err != nil {
		return err
	}
	if err := pullImage(ctx, engine, t.Image, auth.encoded, pullStallTimeout, t.ReportMessage); isAccessDenied(err) {
		return fmt.Errorf("%w: %s", err, auth.deniedAdvice())
	} else if err != nil {
		return err
	}
	return nil
}

// pullImage pulls an image and reports the progress. Each message of the
// engine restarts the stall timer. Tasks that wait for the same image all pull
// it: the engine fetches each layer once.
func pullImage(ctx context.Context, engine *client.Client, name, auth string, stall time.Duration, report func(string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no progress for %s", stall)) })
	defer stalled.Stop()
	body, err := engine.ImagePull(ctx, name, dockerimage.PullOptions{RegistryAuth: auth})
	if err != nil {
		return contextCause(ctx, err)
	}
	defer body.Close()
	messages, progress := json.NewDecoder(body), newPullProgress(name)
	for {
		var m pullMessage
		err := messages.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return contextCause(ctx, err)
		case m.Error != "":
			return errors.New(m.Error)
		}
		stalled.Reset(stall)
		if text := progress.addMessage(m, time.Now()); text != "" {
			report(text)
		}
	}
}

// contextCause returns the cause of ctx's end, if it has ended, instead of
// err.
func contextCause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}
