package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServiceExample: its health check finds the task, on the port it was
// given, on a cluster of this machine alone.
func TestServiceExample(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	binary := filepath.Join(t.TempDir(), "mesos-gpu")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "local", "--free-ports", "--gpus", "1xV100", "--work-dir", filepath.Join(t.TempDir(), "w"), "--run", filepath.Join("..", "..", "examples", "service.yaml"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "was asked twice") || !strings.HasSuffix(text, "job service FINISHED\n") {
		t.Errorf("%v\n%s", err, text)
	}
}
