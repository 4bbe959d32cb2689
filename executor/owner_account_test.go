package executor

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// TestOwnerAccount checks which account a task that runs as its owner has. Debian and Fedora have these users.
func TestOwnerAccount(t *testing.T) {
	testneeds.RequireRoot(t)
	for _, c := range []struct {
		name    string
		task    task.TaskSpec
		want    *task.Account
		warning string
	}{
		{"owner", task.TaskSpec{RunsAsOwner: true, User: "daemon"}, accountOf(t, "daemon"), ""},
		{"another user", task.TaskSpec{User: "daemon"}, nil, ""},
		{"no home", task.TaskSpec{RunsAsOwner: true, User: "nobody"}, withoutHome(accountOf(t, "nobody")), "HOME is the sandbox: home of user nobody: "},
		{"container", task.TaskSpec{RunsAsOwner: true, Image: "a", HostUser: &job.HostUser{UID: 65534}}, withoutHome(accountOf(t, "nobody")), ""},
		{"unknown user", task.TaskSpec{RunsAsOwner: true, User: "no-such-user"}, nil, "HOME is the sandbox: user: unknown user no-such-user"},
	} {
		cfg := ExecutorConfig{Log: logrus.New()}
		warning := cfg.applyOwnerAccount(t.Context(), &c.task)
		if diff := cmp.Diff(c.want, c.task.Account); diff != "" {
			t.Errorf("%s: account (-want +got):\n%s", c.name, diff)
		}
		if !strings.HasPrefix(warning, c.warning) || (warning == "") != (c.warning == "") {
			t.Errorf("%s: the warning is %q, want %q", c.name, warning, c.warning)
		}
	}
}

// accountOf reads /etc/passwd.
func accountOf(t *testing.T, name string) *task.Account {
	t.Helper()
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); f[0] == name {
			return &task.Account{Name: name, Home: f[5], Shell: f[6]}
		}
	}
	t.Skipf("this machine has no account %s", name)
	return nil
}

func withoutHome(a *task.Account) *task.Account {
	if _, err := os.Stat(a.Home); err != nil {
		a.Home = ""
	}
	return a
}

// TestFolderIsEnteredAsUser checks that the user's rights count, and not those of root: the user's own folder, one of a group of the
// user, and those of others; so do they for the folder in which a task starts. Afterwards root still has its own rights.
func TestFolderIsEnteredAsUser(t *testing.T) {
	testneeds.RequireRoot(t)
	who, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	top := t.TempDir()
	for dir := top; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		uid, gid int
		mode     os.FileMode
		refused  string
	}{
		{"own", uid, 0, 0o700, ""},
		{"group", 0, gid, 0o710, ""},
		{"all", 0, 0, 0o701, ""},
		{"other", 0, 0, 0o750, "permission denied"},
	} {
		dir := filepath.Join(top, c.name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, c.uid, c.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		err := checkEntry(t.Context(), who, dir)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.refused)
		}
	}
	if err := checkEntry(t.Context(), who, filepath.Join(top, "missing")); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a missing folder: %v", err)
	}
	cfg := ExecutorConfig{Log: logrus.New()}
	for _, c := range []struct {
		name, want string
		task       task.TaskSpec
	}{
		{"no folder", "", task.TaskSpec{}},
		{"own", "", task.TaskSpec{Chdir: filepath.Join(top, "own"), RunsAsOwner: true, User: "nobody"}},
		{"other", "permission denied: submit from a folder", task.TaskSpec{Chdir: filepath.Join(top, "other"), RunsAsOwner: true, User: "nobody"}},
		{"root", "", task.TaskSpec{Chdir: filepath.Join(top, "other"), RunsAsOwner: true, User: "root"}},
		{"no owner", "does not run as the owner", task.TaskSpec{Chdir: filepath.Join(top, "own"), User: "nobody"}},
	} {
		if err := cfg.checkChdir(t.Context(), &c.task); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("chdir to %s: got %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := os.ReadDir(filepath.Join(top, "other")); err != nil {
		t.Errorf("root has lost its rights: %v", err)
	}
}
