// Package unixsocket opens unix sockets to which every user may connect, and identifies
// the users at their other ends. The kernel vouches for the identity.
package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// probeTimeout limits how long Listen waits for a daemon that may own the socket.
const probeTimeout = 5 * time.Second

// Listen creates the unix socket and its folder. It replaces a socket that no
// process answers, which a killed daemon left. A socket that is answered, or a
// file of another kind, is an error.
func Listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make folder of the unix socket: %w", err)
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the unix socket: %w", err)
	}
	// Any user may connect: the server reads the peer's identity.
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, fmt.Errorf("open the unix socket to all users: %w", err)
	}
	return l, nil
}

func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the unix socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("listen on %s: the file there is not a socket; move it or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, probeTimeout)
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

// PeerCredentials returns the kernel's record of the process that connected.
func PeerCredentials(c net.Conn) (cred *unix.Ucred, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("find out who connected: not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("find out who connected: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || failed != nil {
		return nil, fmt.Errorf("find out who connected: %w", errors.Join(err, failed))
	}
	return cred, nil
}
