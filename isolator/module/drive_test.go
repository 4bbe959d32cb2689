package module

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
)

// built is the folder of the compiled programs. It outlives the run: make
// compiles only what has changed.
const built = "../../bin/test-build/module"

// build makes a target of the Makefile below a folder.
func build(t testing.TB, out, target string) {
	t.Helper()
	testneeds.RequireProgram(t, "make", "make")
	testneeds.RequireProgram(t, "g++", "g++")
	sources, err := filepath.Glob("*/*pp")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(sources, "Makefile") {
		// The cached test result depends on files that the test has opened.
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := exec.Command("make", "-s", "-j2", target, "OUT="+out).CombinedOutput()
	if err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, text)
	}
}

func needHeaders(t testing.TB) {
	t.Helper()
	for header, pkg := range map[string]string{"nlohmann/json.hpp": "nlohmann-json3-dev", "curl/curl.h": "libcurl4-openssl-dev"} {
		probe := exec.Command("g++", "-E", "-x", "c++", "-", "-o", os.DevNull)
		// Including the headers would take half a second of processor time in each test.
		probe.Stdin = strings.NewReader("#if !__has_include(<" + header + ">)\n#error\n#endif\n")
		if probe.Run() != nil {
			testneeds.RequireProgram(t, header, pkg)
		}
	}
}

// callResult is the outcome of one client call.
type callResult struct {
	ID      int             `json:"id"`
	Kind    string          `json:"kind"` // ok, away, broken, refused
	Message string          `json:"message"`
	Status  int             `json:"status"`
	Value   json.RawMessage `json:"value"`
}

// driverProcess is a program that reads calls as JSON lines and prints the outcome of
// each when it is ready.
type driverProcess struct {
	t    *testing.T
	in   io.WriteCloser
	mu   sync.Mutex
	next int
	wait map[int]chan callResult
	// started receives the outcome of the start, if the program prints one.
	started chan callResult
	done    chan struct{} // closed after the last line of output
}

func startDriver(t *testing.T, name string, env []string, args ...string) *driverProcess {
	t.Helper()
	started := make(chan callResult, 1)
	d := &driverProcess{t: t, wait: map[int]chan callResult{0: started}, started: started, done: make(chan struct{})}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.in = in
	go d.readResults(out)
	t.Cleanup(func() {
		in.Close()
		<-d.done
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", filepath.Base(name), err)
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", filepath.Base(name), errs.Bytes()[max(0, errs.Len()-8000):])
		}
	})
	return d
}

func (d *driverProcess) readResults(out io.Reader) {
	defer close(d.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var o callResult
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			d.t.Errorf("the driver printed %q", lines.Text())
			continue
		}
		d.mu.Lock()
		to := d.wait[o.ID]
		delete(d.wait, o.ID)
		d.mu.Unlock()
		to <- o
	}
}

// send starts a call.
func (d *driverProcess) send(call map[string]any) <-chan callResult {
	d.t.Helper()
	to := make(chan callResult, 1)
	d.mu.Lock()
	d.next++
	call["id"] = d.next
	d.wait[d.next] = to
	d.mu.Unlock()
	line, err := json.Marshal(call)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(d.in, "%s\n", line); err != nil {
		d.t.Fatal(err)
	}
	return to
}

// call sends a call and waits for its result.
func (d *driverProcess) call(call map[string]any) callResult {
	d.t.Helper()
	return d.awaitResult(d.send(call))
}

func (d *driverProcess) awaitResult(call <-chan callResult) callResult {
	d.t.Helper()
	select {
	case o := <-call:
		return o
	case <-d.done:
		d.t.Fatal("the driver has ended")
	case <-time.After(time.Minute):
		d.t.Fatal("waited a minute for a call")
	}
	return callResult{}
}
