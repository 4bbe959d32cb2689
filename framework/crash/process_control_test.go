package crash

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitTimeout limits every wait: a test that waits longer fails.
const waitTimeout = 3 * time.Minute

// schedulerProcess is one process of a scheduler.
type schedulerProcess struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
	up    chan struct{}  // closed when its API listens
	leads chan time.Time // receives the time whenever it becomes the leader
	ended chan struct{}  // closed when all fields below are set
	at    time.Time      // when it ended
	word  string         // the crash point that it reported, "" if none
	err   error
}

// startProcess starts a scheduler. It ends with the test, even if the test process dies, because
// its standard input ends then.
func startProcess(t testing.TB, s processSettings) *schedulerProcess {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &schedulerProcess{t: t, up: make(chan struct{}), leads: make(chan time.Time, 64), ended: make(chan struct{})}
	p.cmd = exec.Command(s.Executor, schedulerCommand, string(text))
	p.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0 halt_on_error=1")
	log, err := os.OpenFile(logFile(s), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	fmt.Fprintf(log, "--- a scheduler that dies %s\n", s.Die)
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go p.readOutput(out)
	t.Cleanup(func() { p.kill(); <-p.ended })
	return p
}

// logFile returns the log file that all processes with the same API share.
func logFile(s processSettings) string {
	return filepath.Join(s.Logs, "scheduler-"+strings.ReplaceAll(s.API, ":", "-")+".log")
}

// readOutput reads the process's standard output until it has ended.
func (p *schedulerProcess) readOutput(out io.Reader) {
	up := sync.OnceFunc(func() { close(p.up) })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch word, rest, _ := strings.Cut(lines.Text(), " "); word {
		case saysUp:
			up()
		case saysLeads:
			select {
			case p.leads <- time.Now():
			default: // the test does not read it
			}
		case saysDies:
			p.word = rest
		}
	}
	p.err = p.cmd.Wait()
	p.at = time.Now()
	close(p.ended)
}

// setCrashPoint replaces the process's crash point.
func (p *schedulerProcess) setCrashPoint(at crashPoint) {
	p.t.Helper()
	p.order(processOrder{Die: &at})
}

// setClock sets how far the process's clock is ahead of the machine's.
func (p *schedulerProcess) setClock(ahead time.Duration) {
	p.t.Helper()
	p.order(processOrder{ClockOffset: &ahead})
}

func (p *schedulerProcess) order(o processOrder) {
	p.t.Helper()
	text, err := json.Marshal(o)
	if err == nil {
		_, err = p.stdin.Write(append(text, '\n'))
	}
	if err != nil {
		p.t.Fatalf("order %s to the scheduler: %v", text, err)
	}
}

// kill sends SIGKILL.
func (p *schedulerProcess) kill() { _ = p.cmd.Process.Kill() } // it may have ended

// stop ends the scheduler cleanly.
func (p *schedulerProcess) stop() {
	p.t.Helper()
	_ = p.stdin.Close() // makes the scheduler stop
	p.await(p.ended, "the end of the scheduler")
	if p.err != nil {
		p.t.Errorf("the scheduler ended with %v", p.err)
	}
}

// await waits until the channel is closed.
func (p *schedulerProcess) await(happens <-chan struct{}, what string) {
	p.t.Helper()
	select {
	case <-happens:
	case <-time.After(waitTimeout):
		p.t.Fatalf("waited %s for %s", waitTimeout, what)
	}
}

// awaitUnlessEnded waits until the channel is closed. It fails the test if the process ends first.
func (p *schedulerProcess) awaitUnlessEnded(happens <-chan struct{}, what string) {
	p.t.Helper()
	select {
	case <-happens:
	case <-p.ended:
		p.t.Fatalf("the scheduler ended before %s: %v", what, p.err)
	case <-time.After(waitTimeout):
		p.t.Fatalf("waited %s for %s", waitTimeout, what)
	}
}

// awaitDeath waits until the process has killed itself, and returns the crash point that it reported.
func (p *schedulerProcess) awaitDeath(at crashPoint) string {
	p.t.Helper()
	p.await(p.ended, "the scheduler's death "+at.String())
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		p.t.Fatalf("the scheduler that was to die %s ended with %v", at, p.err)
	}
	return p.word
}
