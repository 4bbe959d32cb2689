package e2e

import (
	"os/user"
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
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
