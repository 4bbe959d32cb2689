//go:build packages

package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Names under which the test binary acts as another program inside the machine under test: a
// program that sends an HTTP request, because a minimal Debian has none, and a fake of
// NVIDIA's MPS.
const (
	requestProgram    = "ask"
	mpsControlProgram = "nvidia-cuda-mps-control"
)

func TestMain(m *testing.M) {
	var err error
	switch filepath.Base(os.Args[0]) {
	case requestProgram:
		err = sendRequest(os.Args[1], os.Args[2], os.Args[3])
	case mpsControlProgram:
		if os.Args[len(os.Args)-1] == "-f" {
			err = serveMPS(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"))
		} else {
			err = sendMPSCommands(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"))
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sendRequest sends a request and prints the response. It uses GET if body is empty, otherwise
// POST. at is HOST:PORT or the path of a unix socket.
func sendRequest(at, path, body string) error {
	network, method := "tcp", http.MethodPost
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}}}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s %s: %v", method, path, answer.Status, text, err)
	}
	_, err = os.Stdout.Write(text)
	return err
}

// serveMPS is a fake MPS control daemon. It does what a sandbox could prevent NVIDIA's from
// doing: it writes to /dev/shm, starts a process as another user and maps executable memory.
func serveMPS(pipe string) error {
	if err := os.WriteFile("/dev/shm/of-mps", nil, 0o600); err != nil {
		return err
	}
	code, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("map memory to execute: %w", err)
	}
	defer func() { _ = syscall.Munmap(code) }()
	server := exec.Command("/bin/sh", "-c", "id -u")
	server.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := server.CombinedOutput(); err != nil || string(out) != "65534\n" {
		return fmt.Errorf("start a server as the user 65534: %w: %s", err, out)
	}
	path := filepath.Join(pipe, "control")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		if line, _ := bufio.NewReader(c).ReadString('\n'); line == "quit\n" {
			return c.Close()
		}
		_, _ = c.Write([]byte("100.0\n"))
		_ = c.Close()
	}
}

// sendMPSCommands forwards commands from standard input, as in: echo get_… |
// nvidia-cuda-mps-control.
func sendMPSCommands(pipe string) error {
	c, err := net.Dial("unix", filepath.Join(pipe, "control"))
	if err != nil {
		return err
	}
	if _, err := io.Copy(c, os.Stdin); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, c)
	return err
}
