package job

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestValidateChdir(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*Spec)
	}{
		{"submission", "", func(s *Spec) { s.Chdir = "submit" }},
		{"path", "", func(s *Spec) { s.Chdir = "/home/alice/my run" }},
		{"relative", `"home/alice" is neither submit`, func(s *Spec) { s.Chdir = "home/alice" }},
		{"parent", `"/home/../root" is neither submit`, func(s *Spec) { s.Chdir = "/home/../root" }},
		{"two slashes", `"//home" is neither submit`, func(s *Spec) { s.Chdir = "//home" }},
		{"two lines", "control characters", func(s *Spec) { s.Chdir = "/home\n/root" }},
		{"long", "4097 bytes, more than 4096", func(s *Spec) { s.Chdir = "/" + strings.Repeat("a", 4096) }},
		{"image", "a task with an image has other folders", func(s *Spec) { s.Chdir, s.Image = "submit", "debian" }},
		{"working folder", "choose one", func(s *Spec) { s.Chdir, s.Workdir = "submit", "src" }},
	} {
		s := Spec{Name: "a", Tasks: 1, Command: []string{"true"}}
		s.SetDefaults()
		c.change(&s)
		err := s.Complete()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestStartInFolder checks the command that enters a folder: PWD is the path of a link, the program may be in the folder, and its
// arguments and exit code are unchanged. Without the folder the command prints what is wrong and what to do.
func TestStartInFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "my link")
	if err := os.Symlink(t.TempDir(), folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "run.sh"), []byte("#!/bin/sh\npwd; echo \"$#$2\"; exit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder    string
		argv      []string
		code      int
		out, fail string
	}{
		{folder, []string{"./run.sh", "--", "-x y"}, 7, folder + "\n2-x y\n", ""},
		{folder, []string{"sh", "-c", "pwd"}, 0, folder + "\n", ""},
		{folder, []string{"no-such-program"}, 127, "", "not found"},
		{folder + "/missing", []string{"true"}, 126, "", "mesos-gpu: the task cannot start in " + folder + "/missing on "},
	} {
		argv := StartInFolder(c.folder, c.argv)
		var out, fail bytes.Buffer
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = &out, &fail
		_ = cmd.Run() // the code below is its result
		if code := cmd.ProcessState.ExitCode(); code != c.code || out.String() != c.out || !strings.Contains(fail.String(), c.fail) {
			t.Errorf("%q: code %d, output %q, errors %q; want %d, %q, %q", c.argv, code, out.String(), fail.String(), c.code, c.out, c.fail)
		}
	}
}

// The command on a client's terminal runs in a session, which starts in the sandbox.
func TestTerminalStartsInFolder(t *testing.T) {
	s := Spec{Command: []string{"bash"}, Chdir: "/home/alice", TTY: true}
	if got := s.AttachCommand("a"); !slices.Equal(got[4:], StartInFolder("/home/alice", s.Command)) {
		t.Errorf("the session runs %q", got[4:])
	}
}
