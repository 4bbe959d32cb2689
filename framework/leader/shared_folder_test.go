package leader

import (
	"errors"
	"net/http"
	"os/user"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// TestChdirNeedsASharedFolder checks in which folders tasks may start: in shared ones, as the unix user who owns the job.
func TestChdirNeedsASharedFolder(t *testing.T) {
	daemon, err := user.Lookup("daemon")
	if err != nil {
		t.Skip(err)
	}
	shared := []string{"/home", "/data/", OwnerHome}
	for _, c := range []struct {
		name, folder, owner, user string
		shared                    []string
		refused                   string
	}{
		{"none", "", "", "", nil, ""},
		{"shared", "/home", "unix:daemon", "", shared, ""},
		{"below", "/data/run", "unix:daemon", "daemon", shared, ""},
		{"whole machine", "/etc", "unix:daemon", "", []string{"/"}, ""},
		{"home", daemon.HomeDir + "/run", "unix:daemon", "", shared, ""},
		{"home of another user", daemon.HomeDir, "unix:nobody", "", shared, daemon.HomeDir + " is not below a folder that the agents share"},
		{"longer name", "/database", "unix:daemon", "", shared, "has named /home, /data/, the owner's home by --shared-folders"},
		{"local", "/tmp", "unix:daemon", "", nil, "has named none by"},
		{"unknown user", "/srv", "unix:no-such-user", "", shared, "/srv is not below"},
		{"token", "/home", "alice", "", shared, "who is no unix user"},
		{"no owner", "/home", "", "", shared, "who is no unix user"},
		{"another user", "/home", "unix:daemon", "root", shared, "not as root: leave out user"},
		{"not resolved", "submit", "unix:daemon", "", shared, "send its absolute path"},
	} {
		l := &Leader{sharedFolders: c.shared}
		err := l.checkChdir(t.Context(), nil, &submission{spec: &job.Spec{Chdir: c.folder, Owner: c.owner, Container: job.Container{User: c.user}}})
		p := (*api.Problem)(nil)
		if (err == nil) != (c.refused == "") || err != nil && !(errors.As(err, &p) && p.Status >= http.StatusBadRequest && strings.Contains(p.Detail, c.refused)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.refused)
		}
	}
}
