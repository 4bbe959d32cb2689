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
)

// pullStall is how long a pull may go without progress.
const pullStall = 2 * time.Minute

// inspect returns the image, pulled first where the engine has none.
func (d *Runtime) inspect(ctx context.Context, engine *client.Client, name string) (dockerimage.InspectResponse, error) {
	got, err := engine.ImageInspect(ctx, name)
	if err == nil {
		return got, nil
	}
	if !errdefs.IsNotFound(err) {
		return got, fmt.Errorf("inspect image %s: %w", name, err)
	}
	d.Log.WithField("image", name).Info("pulling image")
	if err := pull(ctx, engine, name, pullStall); err != nil {
		return got, fmt.Errorf("image %s is not on this agent and cannot be pulled: %w: docker load it there, or name an image that its registry has", name, err)
	}
	got, err = engine.ImageInspect(ctx, name)
	if err != nil {
		return got, fmt.Errorf("inspect pulled image %s: %w", name, err)
	}
	return got, nil
}

// pull fetches an image. Each message of the engine winds the stall timer up
// again; the messages themselves are not kept.
func pull(ctx context.Context, engine *client.Client, name string, stall time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stall, func() { cancel(fmt.Errorf("no progress for %s", stall)) })
	defer stalled.Stop()
	body, err := engine.ImagePull(ctx, name, dockerimage.PullOptions{})
	if err != nil {
		return cause(ctx, err)
	}
	defer body.Close()
	messages := json.NewDecoder(body)
	for {
		var m struct {
			Error string `json:"error"`
		}
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
	}
}

// cause prefers why ctx ended to what that did to a call.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}
