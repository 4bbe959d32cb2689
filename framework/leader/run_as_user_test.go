package leader

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// TestContainersOnTheMachineRunAsTheirOwner checks which containers of a user of the machine run as that user: those that reach
// paths, devices or shared memory of the machine. What would get around it is refused. An operator's own jobs may run as root, and
// jobs of users without an operator's rights not even when an operator updates them.
func TestContainersOnTheMachineRunAsTheirOwner(t *testing.T) {
	policy := access.UnixUsersPolicy(admission.HostPermissions{Volumes: []string{"/data"}})
	policy.AddOperators("ops")
	user := policy.GrantFor(access.Identity{Name: "unix:nobody"})
	operator := policy.GrantFor(access.Identity{Name: "unix:daemon", Groups: []string{"unix:ops"}})
	for _, c := range []struct {
		name    string
		by      *access.Grant
		owner   string
		change  func(*job.Spec)
		refused string
		runsAs  int // the uid, 0 for the image's user
	}{
		{"no path", user, "unix:nobody", func(*job.Spec) {}, "", 0},
		{"named volume", user, "unix:nobody", func(s *job.Spec) { s.Volumes = []job.Volume{{Source: "model"}} }, "", 0},
		{"path", user, "unix:nobody", func(s *job.Spec) { s.Volumes = []job.Volume{{Source: "/data/a"}} }, "", 65534},
		{"path by an option", user, "unix:nobody", func(s *job.Spec) { s.Parameters = []job.DockerParameter{{Key: "v", Value: "/data:/d"}} }, "", 65534},
		{"device", user, "unix:nobody", func(s *job.Spec) { s.Devices = []string{"/dev/fuse"} }, "", 65534},
		{"shared memory", user, "unix:nobody", func(s *job.Spec) { s.IPC = job.HostIPC }, "", 65534},
		{"a client that sets the user", user, "unix:nobody", func(s *job.Spec) { s.HostUser = &job.HostUser{UID: 1} }, "", 0},
		{"own name", user, "unix:nobody", func(s *job.Spec) { s.User, s.Volumes = "nobody", []job.Volume{{Source: "/data"}} }, "", 65534},
		{"root", user, "unix:nobody", func(s *job.Spec) { s.User, s.Volumes = "root", []job.Volume{{Source: "/data"}} }, "runs as nobody", 0},
		{"user by an option", user, "unix:nobody", func(s *job.Spec) {
			s.Parameters = []job.DockerParameter{{Key: "v", Value: "/data:/d"}, {Key: "u", Value: "0"}}
		}, "leave the user and the groups out", 0},
		{"group by an option", user, "unix:nobody", func(s *job.Spec) {
			s.Parameters = []job.DockerParameter{{Key: "v", Value: "/data:/d"}, {Key: "group-add", Value: "shadow"}}
		}, "leave the user and the groups out", 0},
		{"container of Mesos", user, "unix:nobody", func(s *job.Spec) {
			s.Containerizer, s.Volumes = job.Mesos, []job.Volume{{Source: "/data"}}
		}, "needs container: docker", 0},
		{"fetched file of the machine", user, "unix:nobody", func(s *job.Spec) {
			s.Image, s.Fetch = "", []job.FetchArtifact{{URI: "file:///data/key"}}
		}, "with the rights of the service", 0},
		{"unknown user", user, "unix:no-such-user", func(s *job.Spec) { s.Volumes = []job.Volume{{Source: "/data"}} }, "no-such-user", 0},
		{"operator", operator, "unix:daemon", func(s *job.Spec) { s.Volumes = []job.Volume{{Source: "/data"}} }, "", 0},
		{"operator for a user", operator, "unix:nobody", func(s *job.Spec) { s.Volumes = []job.Volume{{Source: "/data"}} }, "", 65534},
		{"token", user, "alice", func(s *job.Spec) { s.Volumes = []job.Volume{{Source: "/data"}} }, "", 0},
	} {
		spec := job.Spec{Name: "a", Owner: c.owner, Image: "debian:12", Containerizer: job.Docker}
		c.change(&spec)
		err := assignHostUser(c.by, &spec)
		if p := (*api.Problem)(nil); c.refused != "" && (!errors.As(err, &p) || p.Status != http.StatusForbidden || !strings.Contains(p.Detail, c.refused)) ||
			c.refused == "" && err != nil {
			t.Errorf("%s: got %v, want %q", c.name, err, c.refused)
		}
		got := 0
		if u := spec.HostUser; u != nil {
			got = u.UID
		}
		if got != c.runsAs {
			t.Errorf("%s: it runs as %d, want %d", c.name, got, c.runsAs)
		}
	}
}
