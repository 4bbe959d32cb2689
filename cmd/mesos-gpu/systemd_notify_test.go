package main

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/cli"
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

// loggedEntry is one line of a daemon's log.
type loggedEntry struct {
	message string
	fields  logrus.Fields
	want    string // "" for no notification
}

// A daemon reports each state once, whatever the log level omits.
func TestDaemonStateFromLog(t *testing.T) {
	refused := logrus.Fields{"error": errors.New("connection refused")}
	for name, c := range map[string]struct {
		condition cli.DaemonState
		first     string
		lines     []loggedEntry
	}{
		"a scheduler with a journal in a file": {&cli.SchedulerState{}, "starting", []loggedEntry{
			{"journal read", nil, "leading; waiting for a master"},
			{"no leading master in ZooKeeper", refused, "leading; waiting for a master: connection refused"},
			{"no subscription to a master", refused, ""},
			{"subscribed", logrus.Fields{"master": "http://m1:5050"}, "leading; subscribed to http://m1:5050"},
			{"task changed", nil, ""},
			{"no leading master in ZooKeeper", refused, ""}, // a standby needs no master
			{"no subscription to a master", logrus.Fields{"error": "master http://m1:5050: EOF"}, "leading; waiting for a master: master http://m1:5050: EOF"},
		}},
		"one of several schedulers": {&cli.SchedulerState{}, "starting", []loggedEntry{
			{"no connection to ZooKeeper", refused, "waiting for ZooKeeper: connection refused"},
			{"connected to ZooKeeper", nil, "starting"},
			{"standing by", nil, "standing by"},
			{"no leading master in ZooKeeper", refused, ""},
			{"journal read", nil, "leading; waiting for a master"},
			{"subscribed", logrus.Fields{"master": "http://m1:5050"}, "leading; subscribed to http://m1:5050"},
			{"no connection to ZooKeeper", refused, "leading; waiting for ZooKeeper: connection refused; subscribed to http://m1:5050"},
			{"this scheduler stands by: tasks go on", refused, "leading no more: connection refused"},
			{"standing by", nil, "standing by"},
		}},
		"an agent's daemon": {&cli.AgentState{}, "looking for GPUs", []loggedEntry{
			{"GPUs discovered", logrus.Fields{"gpus": 2}, "2 GPUs"},
			{"containers cannot be confined here", refused, "2 GPUs; containers cannot be confined here: connection refused"},
			{"GPUs discovered", logrus.Fields{"gpus": 4}, "4 GPUs"}, // after repartitioning
			{"no driver volume: images that ask for the driver cannot be launched", refused, "4 GPUs; no driver volume: connection refused"},
			{"driver volume is ready", nil, "4 GPUs"},
			{"GPUs not advertised", logrus.Fields{"error": "EOF", "agent": "http://a:5051"}, "4 GPUs; not advertised, waiting for the agent http://a:5051: EOF"},
			{"GPUs advertised", logrus.Fields{"gpus": 3, "shared": 1, "agent": "http://a:5051"}, "4 GPUs; 3 whole and 1 shared advertised to http://a:5051"},
			{"GPUs are offered no more until this daemon is started again", refused, "4 GPUs; offered no more until this daemon is started again: connection refused"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			read := fakeSystemd(t)
			var out strings.Builder
			a := &cli.App{ProcessIO: cli.ProcessIO{Stderr: &out, Getenv: os.Getenv}}
			log, err := a.NewLogger("error")
			if err != nil {
				t.Fatal(err)
			}
			a.NewNotifier(log, c.condition)
			told := c.first
			if got := read(); got != "STATUS="+told {
				t.Errorf("at first: got %q, want %q", got, told)
			}
			for _, line := range c.lines {
				log.WithFields(line.fields).Info(line.message)
				if line.want == "" || line.want == told {
					continue // the next notification shows that this entry sent none
				}
				told = line.want
				if got := read(); got != "STATUS="+told {
					t.Errorf("%s: got %q, want %q", line.message, got, told)
				}
			}
			if out.Len() > 0 {
				t.Errorf("beside it the log has lines below its level: %s", &out)
			}
		})
	}
}

// The messages that a DaemonState recognizes are logged by the daemons.
func TestDaemonStateMessagesExist(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "internal", "cli", "systemd_notify.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	sources := readSources(t)
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok {
			return true
		}
		for _, e := range clause.List {
			found++
			if message := e.(*ast.BasicLit).Value; !strings.Contains(sources, "("+message+")") {
				t.Errorf("nobody logs %s", message)
			}
		}
		return true
	})
	if found < 15 {
		t.Errorf("found %d messages, want 15", found)
	}
}

// readSources returns the source of the daemons' packages.
func readSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, top := range []string{"framework", "isolator"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

func TestStatusLineHidesSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"two\nlines\x1b[2J":                          `two; lines\x1b[2J`,
		`master http://gpu:s3cret@m1:5050: EOF`:      `master http://…@m1:5050: EOF`,
		"open zk://a:b@h1,h2/x":                      "open zk://…@h1,h2/x",
		strings.Repeat("ä", cli.MaxStatusSize):       strings.Repeat("ä", cli.MaxStatusSize/2) + "…",
		"x" + strings.Repeat("ä", cli.MaxStatusSize): "x" + strings.Repeat("ä", cli.MaxStatusSize/2-1) + "…",
		"http://m1:5050/redirect: mail a@b about":    "http://m1:5050/redirect: mail a@b about",
	} {
		if diff := cmp.Diff("STATUS="+want, cli.StatusLine(text)); diff != "" {
			t.Error(diff)
		}
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
			"--journal", filepath.Join(t.TempDir(), "journal.db")}, cli.ProcessIO{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv})
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
		if code := runCommandLine(t.Context(), args, cli.ProcessIO{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv}); code == 0 {
			t.Errorf("%v ends well", args)
		}
	}
	runCommandLine(t.Context(), []string{"scheduler", "--no-such"}, cli.ProcessIO{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv})
	if got := read(); !strings.Contains(got, "--no-such") || strings.Contains(got, "devices") {
		t.Errorf("got %q first, want what the scheduler tells", got)
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
			if code := runCommandLine(t.Context(), args, cli.ProcessIO{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: os.Getenv}); code == 0 {
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
