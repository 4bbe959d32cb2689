package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ListenUnix creates the unix socket and its folder. It replaces a socket that
// no process answers, which a killed daemon left. A socket that is answered,
// or a file of another kind, is an error.
func ListenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make folder of the agent's socket: %w", err)
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the agent's socket: %w", err)
	}
	// Any user may connect: the server reads the peer's
	// identity.
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("open the agent's socket to all users: %w", err)
	}
	return l, nil
}

func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the agent's socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen on %s: the file there is not a socket; move it or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, ioTimeout)
	switch {
	case err == nil:
		c.Close()
		return fmt.Errorf("listen on %s: another daemon answers there; stop it or choose another path", path)
	case errors.Is(err, unix.ECONNREFUSED):
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace the socket of a daemon that has ended: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("listen on %s: check whether a daemon answers there: %w", path, err)
	}
}
