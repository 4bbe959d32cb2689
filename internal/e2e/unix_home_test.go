package e2e

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// homeOf returns the home of an account that Debian and Fedora have.
func homeOf(t *testing.T, name string) string {
	t.Helper()
	account, err := user.Lookup(name)
	if err != nil {
		t.Skipf("this machine has no account %s: %v", name, err)
	}
	return account.HomeDir
}

// shortPaths matches three times a short path of a task of the job short.
var shortPaths = regexp.MustCompile(`^(/[^\n]*/agent/tasks/short\.0\.1\.[0-9a-z]+\n){3}$`)

// TestTasksHaveTheHomeOfTheirOwner checks the variables of a login in tasks that run as their owner, and that a user without a home
// learns why it is the sandbox.
func TestTasksHaveTheHomeOfTheirOwner(t *testing.T) {
	t.Parallel()
	c := startSocketCluster(t, "--gpus", "1xV100")
	const report = `echo "$HOME $USER $LOGNAME ${SHELL:+shell} $([ "$MESOS_SANDBOX" -ef . ] && echo sandbox)"`
	if out, want := c.mustRunAs("games", "run", "--", "sh", "-c", report), homeOf(t, "games")+" games games shell sandbox\n"; out != want {
		t.Errorf("a task of games: got %q, want %q", out, want)
	}
	if out := c.mustRunAs("games", "run", "--env", "HOME=/tmp", "--env", "USER=me", "--", "sh", "-c", `echo "$HOME $USER"`); out != "/tmp me\n" {
		t.Errorf("the job's own variables: got %q", out)
	}
	if out := c.mustRunAs("games", "run", "--name", "short", "--", "sh", "-c", "pwd; pwd -P; echo $MESOS_SANDBOX"); !shortPaths.MatchString(out) {
		t.Errorf("the folder of a task: got\n%s", out)
	}
	home := homeOf(t, "games") // shared without a flag
	if out := c.mustRunAs("games", "run", "--chdir", home, "--", "pwd"); out != home+"\n" {
		t.Errorf("a task in its owner's home: got %q", out)
	}
	const inSandbox = `[ "$HOME" -ef . ] && echo "sandbox $USER"`
	if out := c.mustRunAs("bin", "run", "--user", "games", "--", "sh", "-c", inSandbox); out != "sandbox \n" {
		t.Errorf("a task of another user than its owner: got %q", out)
	}
	c.mustRunAs("nobody", "run", "--detach", "--name", "homeless", "--", "sh", "-c", inSandbox+"; sleep 1000")
	c.awaitOutput("sandbox nobody\n", "logs", "homeless")
	c.awaitJob("homeless", func(view *api.JobView) bool {
		return strings.Contains(view.Tasks[0].Message, "HOME is the sandbox: home of user nobody: ")
	})
	if out := c.mustRunAs("nobody", "exec", "homeless", "--", "sh", "-c", `echo "$USER"`); out != "nobody\n" {
		t.Errorf("a command in the task: got %q", out)
	}
}

// runIn runs a client command as a user of the machine in a folder.
func (c socketCluster) runIn(folder, name string, args ...string) result {
	c.t.Helper()
	const enter = `cd "$1" && shift && exec "$@"`
	return runProgram(c.t, "/bin/sh", accountOf(c.t, name), []string{"MESOS_GPU_API=" + c.api, "HOME=/"},
		append([]string{"-c", enter, "sh", folder, buildReleased(c.t)}, args...)...)
}

// makeUserFolder returns a new folder of a user, closed to others, in a folder of root that all can enter.
func makeUserFolder(t *testing.T, name string) (shared, folder string) {
	t.Helper()
	shared = makeWorkDir(t)
	folder = filepath.Join(shared, name)
	owner := accountOf(t, name)
	err := errors.Join(os.Chmod(shared, 0o711), os.Mkdir(folder, 0o700), os.Chown(folder, int(owner.Uid), int(owner.Gid)))
	if err != nil {
		t.Fatal(err)
	}
	return shared, folder
}

// TestTasksStartWhereTheyWereSubmitted checks that a task starts in the folder of its submission if that is on a shared file system and
// the task's user, its owner, can enter it. Everything else is refused.
func TestTasksStartWhereTheyWereSubmitted(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	shared, folder := makeUserFolder(t, "games")
	c := startSocketCluster(t, "--gpus", "1xV100", "--shared-folders", shared)
	script := filepath.Join(folder, "train.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\npwd; pwd -P; id -un; echo kept >result\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(shared, "job.yaml")
	if err := os.WriteFile(file, []byte("name: filed\ncommand: [./train.sh]\nchdir: submit\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := folder + "\n" + folder + "\ngames\n"
	if r := c.runIn(folder, "games", "run", "--chdir", "submit", "--", "./train.sh"); r.out != want {
		t.Errorf("run: status %d, got %q, want %q\n%s", r.code, r.out, want, r.err)
	}
	if r := c.runIn(folder, "games", "submit", file); r.code != 0 {
		t.Fatalf("submit: %s", r.err)
	}
	c.awaitJobEnd("filed")
	if out := c.mustRunAs("games", "logs", "filed"); out != want {
		t.Errorf("a job file: got %q, want %q", out, want)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "result")); string(text) != "kept\n" {
		t.Errorf("the result is %q, %v", text, err)
	}
	if out := c.mustRunAs("games", "get", "filed"); !strings.Contains(out, "chdir: "+folder+"\n") {
		t.Errorf("the job's file does not have the folder:\n%s", out)
	}
	if r := c.runIn(folder, "games", "submit", "--dry-run", "--set", "chdir=/home", "--chdir", "submit", file); !strings.Contains(r.out, "chdir: "+folder+"\n") {
		t.Errorf("submit --chdir: status %d\n%s%s", r.code, r.out, r.err)
	}
	pipe := `cd "$1" && printf piped | "$2" run --chdir submit -- sh -c 'pwd; cat'`
	piped := runProgram(t, "/bin/sh", accountOf(t, "games"), []string{"MESOS_GPU_API=" + c.api, "HOME=/"}, "-c", pipe, "sh", folder, buildReleased(t))
	if piped.out != folder+"\npiped" {
		t.Errorf("with an input: got %q\n%s", piped.out, piped.err)
	}
	for _, one := range []struct {
		name, in, user string
		args           []string
		reason         string
	}{
		{"not shared", "/", "games", []string{"--chdir", "submit"}, "/ is not below a folder that the agents share: the scheduler's operator has named " + shared},
		{"closed to the user", "/", "daemon", []string{"--chdir", folder}, "chdir: user daemon on "},
		{"another user", folder, "root", []string{"--chdir", "submit", "--user", "games"}, "must run as the owner of the job, root, and not as games"},
		{"another user as a user", "/", "daemon", []string{"--chdir", folder, "--user", "games"}, "games"},
		{"missing", "/", "games", []string{"--chdir", shared + "/gone"}, "no such file or directory: submit from a folder that this user can enter"},
		{"upload", folder, "games", []string{"--chdir", "submit", "--workdir", "."}, "choose one"},
		{"image", folder, "games", []string{"--chdir", "submit", "--image", "debian"}, "mount the folder by volumes"},
		{"out of the folder", "/", "games", []string{"--chdir", folder + "/../../etc"}, "absolute path without . and .."},
	} {
		r := c.runIn(one.in, one.user, append(append([]string{"run"}, one.args...), "--", "./train.sh")...)
		if r.code == 0 || !strings.Contains(r.err, one.reason) {
			t.Errorf("%s: status %d, %q, want %q", one.name, r.code, r.err, one.reason)
		}
	}
}

// TestTokensIdentifyUnixUsers checks an access file with run_as: owner: tasks of a token with a unix user run as that user, in the
// user's home and folders, and as nobody else. Tasks of other tokens run as the process user.
func TestTokensIdentifyUnixUsers(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	shared, folder := makeUserFolder(t, "games")
	tokens, entries := map[string]string{}, ""
	for name, more := range map[string]string{"laptop": ", unix_user: games", "robot": "", "boss": ", unix_user: daemon"} {
		token, hash, err := access.NewToken(name)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = token
		entries += fmt.Sprintf("- {name: %s, hash: '%s'%s}\n", name, hash, more)
	}
	file := filepath.Join(t.TempDir(), "access.yaml")
	policy := "run_as: owner\ntokens:\n" + entries + `permissions:
- {may: submit, roles: [/], users: ["unix:games", robot]}
- {may: operate, roles: [/], users: ["unix:daemon"]}
jobs:
- {roles: [/], without_image: true, networks: [host]}
`
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startDaemon(t, binary, "local", "--free-ports", "--work-dir", makeWorkDir(t), "--access", file, "--shared-folders", shared)
	run := func(token string, args ...string) result {
		return runCommand(t, []string{"MESOS_GPU_API=" + c.api, "MESOS_GPU_TOKEN=" + tokens[token]}, args...)
	}
	home := homeOf(t, "games")
	if r := run("laptop", "run", "--chdir", folder, "--", "sh", "-c", `id -un; pwd; echo "$HOME"`); r.out != "games\n"+folder+"\n"+home+"\n" {
		t.Errorf("a task of the user of a token: status %d, %q\n%s", r.code, r.out, r.err)
	}
	if r := run("robot", "run", "--", "sh", "-c", `id -un; [ "$HOME" -ef . ] && echo sandbox`); r.out != "nobody\nsandbox\n" {
		t.Errorf("a task of another token: status %d, %q\n%s", r.code, r.out, r.err)
	}
	for _, one := range []struct {
		token  string
		args   []string
		reason string
	}{
		{"laptop", []string{"run", "--user", "root", "--", "true"}, "only as games, not as"},
		{"robot", []string{"run", "--user", "games", "--", "true"}, "user: games: the access file allows"},
		{"robot", []string{"run", "--chdir", folder, "--", "true"}, "the tasks must run as the owner of the job"},
		{"boss", []string{"run", "--chdir", folder, "--", "true"}, "chdir: user daemon on "},
	} {
		if r := run(one.token, one.args...); r.code == 0 || !strings.Contains(r.err, one.reason) {
			t.Errorf("%s: %q: status %d, %q, want %q", one.token, one.args, r.code, r.err, one.reason)
		}
	}
	if r := run("laptop", "run", "--detach", "--name", "mine", "--restart", "always", "--", "sleep", "1000"); r.code != 0 {
		t.Fatal(r.err)
	}
	update, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.api+"/v1/jobs/unix:games%2Fmine", strings.NewReader("name: mine\ncommand: [id]\nservice: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	update.Header.Set("Content-Type", "application/yaml")
	update.Header.Set("Authorization", "Bearer "+tokens["boss"])
	answer, err := http.DefaultClient.Do(update)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "only as daemon") {
		t.Errorf("an operator updates the service of a user, whose tasks would run as that user: status %d, %s, %v", answer.StatusCode, text, err)
	}
}

// TestContainersHaveTheHomeOfTheirOwner checks that a container that runs as its owner has the owner's home as HOME if it is mounted,
// and otherwise the one of its image.
func TestContainersHaveTheHomeOfTheirOwner(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	image := testimage.LoadImage(t, testneeds.RequireDockerEngine(t), testimage.BusyboxArchive(t, "mesos-gpu-e2e-home", nil, nil))
	home := homeOf(t, "games")
	c := startSocketCluster(t, "--allow-volumes", home)
	for volume, want := range map[string]string{home + ":" + home + ":ro": home + " games\n", home + ":/data:ro": "/ \n"} {
		r := c.runAs("games", "run", "--network", "none", "--image", image, "--volume", volume, "--", "sh", "-c", `echo "$HOME $USER"`)
		if r.out != want {
			t.Errorf("with the volume %s: status %d, got %q, want %q\n%s", volume, r.code, r.out, want, r.err)
		}
	}
}
