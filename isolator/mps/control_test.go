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
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
)

// control is the argument that makes the test binary the stand-in for NVIDIA's
// nvidia-cuda-mps-control.
const control = "stand-in-for-mps-control"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != control {
		os.Exit(m.Run())
	}
	run := ask
	if os.Args[len(os.Args)-1] == "-f" {
		run = serve
	}
	if err := run(os.Getenv("CUDA_MPS_PIPE_DIRECTORY")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1) // os.Exit of a race-instrumented binary waits a second
	}
	syscall.Exit(0)
}

// faultFile, beside the pipe directory, says what is wrong with the daemon.
func faultFile(pipe string) string { return filepath.Join(filepath.Dir(pipe), "fault") }

func fault(pipe string) string {
	text, _ := os.ReadFile(faultFile(pipe))
	return string(text)
}

// serve is the daemon in the foreground: it answers a line over its pipe.
func serve(pipe string) error {
	if fault(pipe) == "broken" {
		return errors.New("no CUDA-capable device is detected")
	}
	if err := os.WriteFile("/dev/shm/of-the-daemon", []byte(os.Getenv("CUDA_VISIBLE_DEVICES")), 0o644); err != nil {
		return err
	}
	path := filepath.Join(pipe, "control")
	_ = os.Remove(path)
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		answer := "100.0"
		switch how := fault(pipe); {
		case how == "dies":
			return errors.New("a fatal fault")
		case how == "hangs":
			select {}
		case strings.TrimSpace(line) == "quit":
			return nil
		case how == "babbles":
			answer = "Cannot find MPS control daemon process"
		}
		fmt.Fprintln(c, answer)
		c.Close()
	}
}

// ask is the program as people use it: echo get_… | nvidia-cuda-mps-control.
func ask(pipe string) error {
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

// newMPS is a limiter whose control program is the stand-in.
func newMPS(t *testing.T, dir string) *MPS {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(t.Output())
	m, err := New(Config{
		Dir: dir, SharedMemory: filepath.Join(dir, "shm"), Program: program, Arguments: []string{control}, Log: log,
		Every: 20 * time.Millisecond, Patience: 20 * time.Second, BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const uuid = "GPU-5e7f"

func part(mem int64, cores int) []gpu.Part {
	return []gpu.Part{{UUID: uuid, MemMiB: mem, Cores: cores}}
}

// pid is the running daemon's process, 0 for none.
func pid(m *MPS) int { return newServer(m.cfg, uuid).process() }

// eventually waits for what a process of its own does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
