package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServiceExample: its health check finds the task, on the port it was
// given, on a cluster of this machine alone; when its program ends it is
// started again, until somebody interrupts.
func TestServiceExample(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	binary := filepath.Join(t.TempDir(), "mesos-gpu")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "local", "--free-ports", "--gpus", "1xV100", "--work-dir", filepath.Join(t.TempDir(), "w"), "--run", filepath.Join("..", "..", "examples", "service.yaml"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	asked, again, text := false, false, strings.Builder{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		switch {
		case strings.Contains(lines.Text(), "was asked twice"):
			asked = true
		case strings.Contains(lines.Text(), "serves on") && asked:
			again = true
			cancel()
		}
	}
	c.Wait() // it was interrupted
	if !again {
		t.Errorf("the service was not asked, and then started again:\n%s", text.String())
	}
}
