package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/testing/testneeds"
)

// fakeSystemd listens on the socket of this process's systemd.
func fakeSystemd(t *testing.T) (read func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "n") // short, because the length of socket paths is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", c.LocalAddr().String())
	return func() string {
		t.Helper()
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		buf := make([]byte, 4096)
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

// Each status is sent once, and none after the daemon was asked to stop.
func TestNotifierSendsEachStatusOnce(t *testing.T) {
	read := fakeSystemd(t)
	n := cli.NewNotifier("starting")
	for _, text := range []string{"starting", "2 GPUs", "2 GPUs", "starting"} {
		n.SetStatus(text)
	}
	ctx, stop := context.WithCancel(t.Context())
	err := n.RunDaemon(ctx, func(context.Context) error {
		stop()
		if got, want := read()+read()+read()+read(), "STATUS=startingSTATUS=2 GPUsSTATUS=startingSTOPPING=1\nSTATUS=stopping"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		n.SetStatus("2 GPUs")
		n.NotifyReady()
		return nil
	})
	if got := read(); got != "READY=1" || err != nil {
		t.Errorf("after the stop: %q, %v", got, err)
	}
}

// An agent's daemon reports its GPUs, what the Mesos agent offers of them, and what it lacks.
func TestAgentNotifiesSystemd(t *testing.T) {
	testneeds.RequireRoot(t)
	read := fakeSystemd(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- runCommandLine(ctx, []string{"agent", "--simulate", "2xV100", "--agent", "http://127.0.0.1:1", "--listen", "", "--log-level", "error",
			"--state-dir", filepath.Join(dir, "state"), "--runtime-dir", filepath.Join(dir, "run"), "--socket", filepath.Join(dir, "agent.sock"),
			"--volumes", filepath.Join(dir, "volumes"), "--driver-root", t.TempDir(), "--cgroups-root", "mesos-gpu-test-systemd"},
			cli.ProcessIO{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv})
	}()
	if got := read(); got != "STATUS=looking for GPUs" {
		t.Errorf("at first: got %q", got)
	}
	for last, all := "", []string{}; !strings.Contains(last, "not advertised, waiting for the agent http://127.0.0.1:1/slave(1): ") ||
		!strings.Contains(last, "; no driver volume: "); {
		last = read()
		if all = append(all, last); len(all) > 20 || !strings.HasPrefix(last, "STATUS=2 GPUs") {
			t.Fatalf("got %q", all)
		}
	}
	cancel()
	for got := ""; got != "STOPPING=1\nSTATUS=stopping"; {
		got = read()
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// A scheduler is ready when it serves requests, even without a master. It reports what it
// waits for, and that it stops.
func TestSchedulerNotifiesSystemd(t *testing.T) {
	read := fakeSystemd(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- runCommandLine(ctx, []string{"scheduler", "--master", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--log-level", "error",
			"--journal", filepath.Join(t.TempDir(), "journal.db")}, cli.ProcessIO{
			Stdin:  strings.NewReader(""),
			Stdout: io.Discard,
			Stderr: io.Discard,
			Getenv: os.Getenv,
		})
	}()
	var got []string
	await := func(want string) {
		t.Helper()
		for {
			got = append(got, read())
			if text := got[len(got)-1]; strings.HasPrefix(text, want) {
				return
			}
			if len(got) > 20 {
				t.Fatalf("got %q, want %s", got, want)
			}
		}
	}
	await("STATUS=leading; waiting for a master: ask for the leading master")
	if !strings.Contains(strings.Join(got, "\n"), "READY=1") {
		await("READY=1")
	}
	if last := strings.Join(got, "\n"); !strings.Contains(last, "connection refused") {
		t.Errorf("got %q", got)
	}
	cancel()
	await("STOPPING=1\nSTATUS=stopping")
	if code := <-ended; code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// Other commands do not notify systemd: they may be part of another service.
func TestOtherCommandsDoNotNotify(t *testing.T) {
	read := fakeSystemd(t)
	for _, args := range [][]string{{"ps", "--api", "http://127.0.0.1:1"}, {"no-such"}, {"agent", "devices", "--no-such"}} {
		if code := runCommandLine(t.Context(), args, cli.ProcessIO{
			Stdin:  strings.NewReader(""),
			Stdout: io.Discard,
			Stderr: io.Discard,
			Getenv: os.Getenv,
		}); code == 0 {
			t.Errorf("%v ends well", args)
		}
	}
	runCommandLine(t.Context(), []string{"scheduler", "--no-such"}, cli.ProcessIO{
		Stdin:  strings.NewReader(""),
		Stdout: io.Discard,
		Stderr: io.Discard,
		Getenv: os.Getenv,
	})
	if got := read(); !strings.Contains(got, "--no-such") || strings.Contains(got, "devices") {
		t.Errorf("got %q first, want the message of the scheduler", got)
	}
}

// The error that ends a program is its last status, even before it serves.
func TestFinalErrorIsReported(t *testing.T) {
	for name, args := range map[string][]string{
		"--log-level loud: use":     {"agent", "--log-level", "loud"},
		"unknown flag: --no-such":   {"scheduler", "--no-such"},
		"make the journal's folder": {"scheduler", "--journal", "/dev/null/journal.db"},
	} {
		t.Run(name, func(t *testing.T) {
			read := fakeSystemd(t)
			if code := runCommandLine(t.Context(), args, cli.ProcessIO{
				Stdin:  strings.NewReader(""),
				Stdout: io.Discard,
				Stderr: io.Discard,
				Getenv: os.Getenv,
			}); code == 0 {
				t.Fatal("it ends well")
			}
			got := read()
			if got == "STATUS=starting" {
				got = read()
			}
			if !strings.HasPrefix(got, "STOPPING=1\nSTATUS=") || !strings.Contains(got, name) {
				t.Errorf("got %q, want %q in it", got, name)
			}
		})
	}
}
