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

// pullStall is how long a pull may go without progress.
const pullStall = 2 * time.Minute

// inspect returns the image, pulled first where the engine has none, or the
// task wants its registry's present one.
func (d *Runtime) inspect(ctx context.Context, engine *client.Client, t task.Task) (dockerimage.InspectResponse, error) {
	name := t.Image
	got, err := engine.ImageInspect(ctx, name)
	fresh := t.MesosContainer.GetDocker().GetForcePullImage()
	if err == nil && !fresh {
		return got, nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return got, fmt.Errorf("inspect image %s: %w", name, err)
	}
	d.Log.WithField("image", name).Info("pulling image")
	if err := d.pull(ctx, engine, name, t.Say); err != nil {
		why := "is not on this agent"
		if fresh {
			why = "is to be pulled anew (force_pull_image)"
		}
		return got, fmt.Errorf("image %s %s and cannot be pulled: %w: docker load it there, or name an image that its registry has", name, why, err)
	}
	got, err = engine.ImageInspect(ctx, name)
	if err != nil {
		return got, fmt.Errorf("inspect pulled image %s: %w", name, err)
	}
	return got, nil
}

// pull fetches an image by the credentials that are known for its registry. A
// refusal says which those were, or where they belong.
func (d *Runtime) pull(ctx context.Context, engine *client.Client, name string, say func(string)) error {
	auth, err := d.login(ctx, name)
	if err != nil {
		return err
	}
	if err := pull(ctx, engine, name, auth.encoded, pullStall, say); denied(err) {
		return fmt.Errorf("%w: %s", err, auth.remedy())
	} else if err != nil {
		return err
	}
	return nil
}

// pull fetches an image and says how far it is. Each message of the engine
// winds the stall timer up again. Tasks that wait for one image each ask for
// it: the engine fetches a layer once, whoever asks.
func pull(ctx context.Context, engine *client.Client, name, auth string, stall time.Duration, say func(string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no progress for %s", stall)) })
	defer stalled.Stop()
	body, err := engine.ImagePull(ctx, name, dockerimage.PullOptions{RegistryAuth: auth})
	if err != nil {
		return cause(ctx, err)
	}
	defer body.Close()
	messages, progress := json.NewDecoder(body), newProgress(name)
	for {
		var m pullMessage
		err := messages.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return cause(ctx, err)
		case m.Error != "":
			return errors.New(m.Error)
		}
		stalled.Reset(stall)
		if text := progress.add(m, time.Now()); text != "" {
			say(text)
		}
	}
}

// cause prefers why ctx ended to what that did to a call.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}
