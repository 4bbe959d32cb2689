package apachemesos

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// patience limits every wait. A test that reaches it fails.
const patience = 3 * time.Minute

// MesosProcess is a running program.
type MesosProcess struct {
	*exec.Cmd
	// Addr is the HOST:PORT of the master or agent.
	Addr  string
	ended chan struct{} // closed when the process has exited
}

// Spawn runs a program until the test ends, and logs its output if the test
// failed.
func Spawn(t testing.TB, env []string, name string, args ...string) *MesosProcess {
	t.Helper()
	var out bytes.Buffer
	p := &MesosProcess{Cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = &out, &out
	p.Env = append(os.Environ(), env...)
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.Wait() }()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have exited
		<-p.ended
		if t.Failed() {
			t.Logf("%s %s said:\n%s", filepath.Base(name), p.Addr, out.Bytes()[max(0, out.Len()-8000):])
		}
	})
	return p
}

// Kill kills the process and waits until it has exited.
func (p *MesosProcess) Kill(t testing.TB) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

// Restart starts a killed process with the same arguments. AwaitReady waits
// until it is ready.
func (p *MesosProcess) Restart(t testing.TB) *MesosProcess {
	t.Helper()
	again := Spawn(t, p.Env, p.Path, p.Args[1:]...)
	again.Addr = p.Addr
	return again
}

// AwaitReady polls the address until the master or agent responds. Mesos does
// not report its readiness in another way.
func (p *MesosProcess) AwaitReady(t testing.TB) {
	t.Helper()
	client := http.Client{Timeout: patience}
	PollUntil(t, p.Addr+" to answer", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("%s ended before it answered", p.Args)
		default:
		}
		resp, err := client.Get("http://" + p.Addr + "/health")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// PollUntil polls a condition that has no notification.
func PollUntil(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}
