package mps

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
)

// controlStandIn is the argument that runs the test binary as a fake
// nvidia-cuda-mps-control.
const controlStandIn = "stand-in-for-mps-control"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != controlStandIn {
		os.Exit(m.Run())
	}
	run := askStandIn
	if os.Args[len(os.Args)-1] == "-f" {
		run = serveStandIn
	}
	if err := run(os.Getenv("CUDA_MPS_PIPE_DIRECTORY")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1) // os.Exit of a race-instrumented binary waits a second
	}
	syscall.Exit(0)
}

// faultFile, next to the pipe directory, selects a fault of the fake daemon.
func faultFile(pipe string) string { return filepath.Join(filepath.Dir(pipe), "fault") }

func readFault(pipe string) string {
	text, _ := os.ReadFile(faultFile(pipe))
	return string(text)
}

// serveStandIn runs the daemon in the foreground. It answers one command line of each connection, and serves
// one at a time: it closes others at once. Its socket keeps the bounds of messages, as NVIDIA's does. It writes several lines for each.
func serveStandIn(pipe string) error {
	if readFault(pipe) == "broken" {
		return errors.New("no CUDA-capable device is detected")
	}
	if err := os.WriteFile("/dev/shm/of-the-daemon", []byte(os.Getenv("CUDA_VISIBLE_DEVICES")), 0o644); err != nil {
		return err
	}
	path := filepath.Join(pipe, "control")
	_ = os.Remove(path)
	l, err := net.Listen("unixpacket", path)
	if err != nil {
		return err
	}
	var busy atomic.Bool
	ended := make(chan error, 1)
	go func() { // connections
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			if readFault(pipe) == "hangs" {
				continue
			}
			if !busy.CompareAndSwap(false, true) {
				fmt.Println("Another session is open")
				c.Close()
				continue
			}
			go func() {
				if err, ends := answerStandIn(c, readFault(pipe)); ends {
					ended <- err
				}
				busy.Store(false)
				c.Close()
			}()
		}
	}()
	return <-ended
}

// answerStandIn answers one command. It reports whether the daemon ends, and why.
func answerStandIn(c net.Conn, fault string) (err error, ends bool) {
	line, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Println("Accepting connection...\nNEW UI\n" + strings.TrimSpace(line) + "\nUI closed")
	switch {
	case fault == "dies":
		return errors.New("a fatal fault"), true
	case fault == "server fails":
		fmt.Println("Starting new server 20516 for user 0\nServer 20516 exited with status 1")
	case strings.TrimSpace(line) == "quit":
		return nil, true
	}
	answer := "100.0"
	if number, ok := strings.CutPrefix(fault, "says "); ok {
		answer = number
	}
	fmt.Fprintln(c, answer)
	return nil, false
}

// askStandIn runs the client as a user does: echo get_…
//
// nvidia-cuda-mps-control.
func askStandIn(pipe string) error {
	c, err := net.Dial("unixpacket", filepath.Join(pipe, "control"))
	if err != nil {
		return err
	}
	if _, err := io.Copy(c, os.Stdin); err != nil {
		return err
	}
	n, err := io.Copy(os.Stdout, c)
	if err == nil && n == 0 {
		err = errors.New("Cannot send command to MPS control daemon process")
	}
	return err
}

// newTestLimiter returns a limiter whose control program is the fake one.
func newTestLimiter(t *testing.T, dir string) *Limiter {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	m, err := New(ControlConfig{
		Dir: dir, sharedMemory: filepath.Join(dir, "shm"), program: program, arguments: []string{controlStandIn}, Log: log,
		probeInterval: 20 * time.Millisecond, commandTimeout: 20 * time.Second, backoffMin: 10 * time.Millisecond, backoffMax: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const uuid = "GPU-5e7f"

func newShares(mem int64, cores int) []gpu.DeviceShare {
	return []gpu.DeviceShare{{UUID: uuid, MemMiB: mem, Cores: cores}}
}

// daemonPID returns the running daemon's PID, or 0.
func daemonPID(m *Limiter) int { return newControlDaemon(m.cfg, uuid).findProcess() }

// eventually waits for the effect of another process.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
