package e2e

import (
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// accountOf returns the credential of an account that Debian and Fedora have.
func accountOf(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	account, err := user.Lookup(name)
	if err != nil {
		t.Skipf("this machine has no account %s: %v", name, err)
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// socketCluster is a cluster whose socket identifies users. Its api is the socket, and run runs
// commands as root.
type socketCluster struct {
	*cluster
	socket string
}

// startSocketCluster starts a cluster whose operators are root and the group bin.
func startSocketCluster(t *testing.T, args ...string) socketCluster {
	t.Helper()
	testneeds.RequireRoot(t)
	work := makeWorkDir(t)
	socket := filepath.Join(work, "api.sock")
	c := startDaemon(t, binary, append([]string{"local", "--free-ports", "--work-dir", work, "--socket", socket, "--operators-group", "bin"}, args...)...)
	c.api = "unix://" + socket
	return socketCluster{c, socket}
}

// runAs runs a client command as a user of the machine.
func (c socketCluster) runAs(name string, args ...string) result {
	c.t.Helper()
	return runProgram(c.t, buildReleased(c.t), accountOf(c.t, name), []string{"MESOS_GPU_API=" + c.api, "HOME=/"}, args...)
}

func (c socketCluster) mustRunAs(name string, args ...string) string {
	c.t.Helper()
	r := c.runAs(name, args...)
	if r.code != 0 {
		c.t.Fatalf("%s: mesos-gpu %s: status %d\n%s%s", name, strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// TestUsersOfTheMachineShareIt checks that users who connect to the socket need no token, that
// their tasks run as themselves, and that they can neither change, read nor impersonate others.
func TestUsersOfTheMachineShareIt(t *testing.T) {
	t.Parallel()
	c := startSocketCluster(t, "--gpus", "2xV100")
	const report = `id -un; stat -c "%U %a" .; echo $NVIDIA_VISIBLE_DEVICES | cut -c 1-4; env | grep -c AUTHENTICATION || true`
	if out := c.mustRunAs("games", "run", "--gpus", "1", "--", "sh", "-c", report); out != "games\ngames 700\nGPU-\n0\n" {
		t.Errorf("a task of games: got\n%s", out)
	}
	for _, name := range []string{"root", "games", "0"} {
		if r := c.runAs("daemon", "run", "--user", name, "--", "true"); r.code == 0 || !strings.Contains(r.err, "only as daemon") {
			t.Errorf("daemon runs a task as %s: status %d\n%s", name, r.code, r.err)
		}
	}
	for _, name := range []string{"bin", "root"} {
		if out := c.mustRunAs(name, "run", "--user", "root", "--", "id", "-un"); out != "root\n" {
			t.Errorf("%s runs a task as root: got %s", name, out)
		}
	}

	c.mustRunAs("games", "run", "--detach", "--name", "mine", "--env", "KEY=private", "--", "sh", "-c", "echo private > file; echo at $PWD; sleep 1000")
	c.awaitOutput("at /", "logs", "mine")
	if out := c.mustRunAs("daemon", "ps"); !strings.Contains(out, "mine") {
		t.Errorf("users see the jobs of others: got\n%s", out)
	}
	if out := c.mustRunAs("daemon", "describe", "mine", "--output", "json"); strings.Contains(out, "private\"") {
		t.Errorf("users see the environment of the jobs of others:\n%s", out)
	}
	for _, args := range [][]string{
		{"logs", "mine"},
		{"kill", "mine"},
		{"exec", "mine", "--", "id"},
		{"cp", "mine:file", "-"},
	} {
		if r := c.runAs("daemon", args...); r.code == 0 {
			t.Errorf("daemon: mesos-gpu %s: status 0\n%s", strings.Join(args, " "), r.out)
		}
	}
	file := filepath.Join(t.TempDir(), "mine.yaml") // beside games' job
	if err := os.WriteFile(file, []byte("name: mine\ncommand: [sh, -c, 'echo as $(id -un); sleep 1000']\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := c.mustRunAs("daemon", "apply", file); out != "job mine submitted\n" {
		t.Errorf("apply: %s", out)
	}
	c.awaitOutput("as daemon", "logs", "daemon/mine") // as an operator
	if r := c.runAs("daemon", "logs", "games/mine"); r.code == 0 {
		t.Errorf("daemon reads the output of games/mine\n%s", r.out)
	}
	if r := c.runAs("daemon", "run", "--name", "mine", "--", "true"); r.code == 0 || !strings.Contains(r.err, `job "mine" is RUNNING`) {
		t.Errorf("a second job of daemon: status %d\n%s", r.code, r.err)
	}
	if out := c.mustRunAs("root", "ps"); strings.Count(out, "\nmine ") != 2 {
		t.Errorf("an operator sees\n%s", out)
	}
	if r := c.runAs("root", "kill", "mine"); r.code == 0 || !strings.Contains(r.err, "games/mine") || !strings.Contains(r.err, "daemon/mine") {
		t.Errorf("kill of an ambiguous name: status %d\n%s", r.code, r.err)
	}
	c.mustRunAs("daemon", "kill", "mine")
	if out := c.mustRunAs("games", "describe", "mine"); !strings.Contains(out, "RUNNING") {
		t.Errorf("games' job after daemon has killed its own:\n%s", out)
	}
	_, at, _ := strings.Cut(c.mustRunAs("games", "logs", "mine"), "at ")
	short := strings.TrimSpace(at)
	at, err := filepath.EvalSymlinks(short)
	if err != nil {
		t.Fatal(err)
	}
	if r := c.runAs("daemon", "run", "--", "ls", filepath.Dir(short)); r.code == 0 && strings.Contains(r.out, "mine") {
		t.Errorf("a task of daemon lists the folders of others: %s", r.out)
	}
	runs := filepath.Dir(filepath.Dir(filepath.Dir(at)))
	for _, path := range []string{filepath.Join(short, "file"), filepath.Join(at, "file"), filepath.Join(at, "stdout"), filepath.Join(runs, "latest", "stderr")} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the sandbox lacks %s: %v", path, err)
		}
		if r := c.runAs("daemon", "run", "--", "cat", path); r.code == 0 {
			t.Errorf("a task of daemon reads %s", path)
		}
	}
	if out := c.mustRunAs("games", "exec", "mine", "--", "id", "-un"); out != "games\n" {
		t.Errorf("a command in a task of games runs as %s", out)
	}
	c.mustRunAs("bin", "kill", "games/mine")
	c.awaitJobEnd("games/mine")
}

// TestSocketClosesOtherDoors checks that a machine whose socket identifies users has no other
// address at which they are not identified.
func TestSocketClosesOtherDoors(t *testing.T) {
	t.Parallel()
	c := startSocketCluster(t)
	addresses := urlPattern.FindAllString(c.output.String(), -1)
	for _, url := range []string{
		addresses[0] + "/v1/jobs", addresses[1] + "/api/v1", addresses[1] + "/api/v1/scheduler",
		addresses[2] + "/api/v1", addresses[2] + "/api/v1/executor",
	} {
		res, err := http.Post(url, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a credential: %s", url, res.Status)
		}
	}
	curl := testneeds.RequireProgram(t, "curl", "curl")
	for _, one := range []struct{ user, url, want string }{
		{"root", "http://rebound.example/v1/jobs", "403"}, // a browser reaches the socket through a forwarded port
		{"root", "http://localhost:1234/v1/jobs", "200"},
		{"bin", "http://localhost/v2/apps", "200"},
		{"games", "http://localhost/v2/apps", "403"}, // an app has no owner as whom it could run
	} {
		r := runProgram(t, curl, accountOf(t, one.user), nil, "--silent", "--output", os.DevNull, "--write-out", "%{http_code}", "--unix-socket", c.socket, one.url)
		if r.out != one.want {
			t.Errorf("%s requests %s: %s, want %s", one.user, one.url, r.out, one.want)
		}
	}
}

var urlPattern = regexp.MustCompile(`http://[0-9.:]+`)

// TestLimitsOfUnixUsers checks that the roles file limits the users of a socket, as of a cluster.
func TestLimitsOfUnixUsers(t *testing.T) {
	t.Parallel()
	roles := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(roles, []byte(`"*": {user: {gpus: "*=1"}, users: {"unix:bin": {gpus: "*=2"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startSocketCluster(t, "--gpus", "4xV100", "--roles", roles)
	for _, name := range []string{"games", "bin"} {
		for _, n := range []string{"1", "2"} {
			c.mustRunAs(name, "run", "--detach", "--name", name+n, "--gpus", "1", "--", "sh", "-c", "echo started; sleep 1000")
		}
	}
	for _, name := range []string{"games1", "bin1", "bin2"} {
		c.awaitOutput("started", "logs", name)
	}
	second := c.awaitJob("games2", func(view *api.JobView) bool { return view.WaitReason != "" })
	if second.TaskStates[job.Waiting] != 1 || !strings.Contains(second.WaitReason, "unix:games") {
		t.Errorf("the second job of games: %s, waits for %q", second.State, second.WaitReason)
	}
}
