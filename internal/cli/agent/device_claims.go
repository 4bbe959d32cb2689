package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"mesos-gpu/executor"
	"mesos-gpu/isolator/socket"
)

// deviceClaimer returns a function that claims devices at the daemon at the socket path.
func deviceClaimer(path string) func(context.Context, string, []string) error {
	return func(ctx context.Context, container string, devices []string) error {
		client := socket.NewDaemonClient(path)
		defer client.Close()
		_, err := client.ClaimDevices(ctx, container, devices)
		answer := (*socket.ResponseError)(nil)
		switch {
		case err == nil:
			return nil
		case errors.As(err, &answer) && answer.Status == http.StatusNotFound: // it has no such path
			return fmt.Errorf("%w: %w", executor.ErrNoClaims, err)
		case errors.As(err, &answer) && answer.Status < http.StatusInternalServerError:
			return &executor.DeviceRefusedError{Reason: answer.Message}
		case answer == nil && isMissing(filepath.Dir(path)): // a daemon that has run leaves the folder
			return fmt.Errorf("%w: %w", executor.ErrNoDaemon, err)
		}
		return err
	}
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
