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

// Names by which the test's own binary is another program in the machine that is
// tested: one that makes an HTTP request, since a bare Debian has none, and the
// stand-in for NVIDIA's MPS.
const (
	asker   = "ask"
	control = "nvidia-cuda-mps-control"
)

func TestMain(m *testing.M) {
	var err error
	switch filepath.Base(os.Args[0]) {
	case asker:
		err = request(os.Args[1], os.Args[2], os.Args[3])
	case control:
		if os.Args[len(os.Args)-1] == "-f" {
			err = serveMPS(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"))
		} else {
			err = askMPS(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"))
		}
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// request prints what is answered; where there is no body it is a GET. at is
// HOST:PORT or a unix socket.
func request(at, path, body string) error {
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

// serveMPS does in the unit's sandbox what NVIDIA's does, as far as a sandbox
// could forbid it: it writes into its /dev/shm, becomes another user in a process
// of its own and maps memory to be executed.
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

// askMPS is the program as people use it: echo get_… | nvidia-cuda-mps-control.
func askMPS(pipe string) error {
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
