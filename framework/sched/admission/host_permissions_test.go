package admission

import (
	"errors"
	"strings"
	"testing"

	"mesos-gpu/job"
)

func TestHostPermissions(t *testing.T) {
	volume := func(sources ...string) func(*job.Spec) {
		return func(s *job.Spec) {
			for _, source := range sources {
				s.Volumes = append(s.Volumes, job.Volume{Source: source, Target: "/in/" + source})
			}
		}
	}
	fetch := func(uri string) func(*job.Spec) {
		return func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: uri}} }
	}
	option := func(key, value string) func(*job.Spec) {
		return func(s *job.Spec) { s.Parameters = []job.DockerParameter{{Key: key, Value: value}} }
	}
	for _, c := range []struct {
		name    string
		allowed HostPermissions
		want    func(*job.Spec)
		refused string
	}{
		{"nothing is asked for", HostPermissions{}, volume(), ""},
		{"a named volume", HostPermissions{}, volume("scratch"), ""},
		{"nothing is allowed", HostPermissions{}, volume("/data"), "volumes: /data is the agent's own: the scheduler's operator allows such paths by --allow-volumes, and has allowed none"},
		{"the path itself", HostPermissions{Volumes: []string{"/data"}}, volume("/data"), ""},
		{"below it", HostPermissions{Volumes: []string{"/scratch", "/data/"}}, volume("/data/a/b"), ""},
		{"a name that begins so", HostPermissions{Volumes: []string{"/data"}}, volume("/database"), "/database is the agent's own"},
		{"above it", HostPermissions{Volumes: []string{"/data/a"}}, volume("/data"), "and has allowed /data/a"},
		{"one of two", HostPermissions{Volumes: []string{"/data"}}, volume("/data", "/etc"), "volumes: /etc is"},
		{"everything", HostPermissions{Volumes: []string{"/"}}, volume("/etc", "/"), ""},
		{"an untidy prefix", HostPermissions{Volumes: []string{"/data/../srv"}}, volume("/srv/x"), ""},
		{"and what it does not mean", HostPermissions{Volumes: []string{"/data/../srv"}}, volume("/data"), "/data is the agent's own"},
		{"shared memory", HostPermissions{Volumes: []string{"/"}}, func(s *job.Spec) { s.IPC = job.HostIPC }, "ipc: host is the agent's own: the scheduler's operator allows it by --allow-host-ipc, and has not"},
		{"shared memory, allowed", HostPermissions{HostIPC: true}, func(s *job.Spec) { s.IPC = job.HostIPC }, ""},
		{"an option of docker run", HostPermissions{Volumes: []string{"/data"}}, option("volume", "/etc:/x"), "parameters: /etc is"},
		{"its short name", HostPermissions{}, option("v", "/etc:/x:ro"), "parameters: /etc is"},
		{"an untidy path", HostPermissions{Volumes: []string{"/data"}}, option("v", "/data/../etc:/x"), "parameters: /data/../etc is"},
		{"an allowed option", HostPermissions{Volumes: []string{"/data"}}, option("v", "/data/a:/x"), ""},
		{"an option with a named volume", HostPermissions{}, option("v", "scratch:/x"), ""},
		{"a file to fetch", HostPermissions{}, func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "/etc/shadow"}} }, "fetch: /etc/shadow is"},
		{"a file by its URI", HostPermissions{Volumes: []string{"/data"}}, func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "file:///data/../etc/x"}} }, "/etc/x is"},
		{"a file of the agent by its name", HostPermissions{Volumes: []string{"/data"}}, fetch("file://localhost/etc/shadow"), "fetch: /etc/shadow is"},
		{"a file by a loud URI", HostPermissions{Volumes: []string{"/data"}}, fetch("FILE://LocalHost/etc/shadow"), "fetch: /etc/shadow is"},
		{"a file without slashes", HostPermissions{Volumes: []string{"/data"}}, fetch("file:/etc/shadow"), "fetch: /etc/shadow is"},
		{"a path that looks like a URI", HostPermissions{Volumes: []string{"/data"}}, fetch("/data/x://../../etc/shadow"), "fetch: /data/x://../../etc/shadow is"},
		{"a file of another host", HostPermissions{Volumes: []string{"/data"}}, fetch("file://data/x"), "fetch: data/x is"},
		{"a path below the agent's own", HostPermissions{Volumes: []string{"/data"}}, fetch("x/y"), "fetch: x/y is"},
		{"an allowed file of the agent", HostPermissions{Volumes: []string{"/data"}}, fetch("file://localhost/data/x"), ""},
		{"an allowed file", HostPermissions{Volumes: []string{"/data"}}, func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "file:///data/x"}} }, ""},
		{"from elsewhere", HostPermissions{}, func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "https://example.org/x"}} }, ""},
		{"shared memory by an option", HostPermissions{}, option("ipc", "host"), "ipc: host is"},
		{"private memory", HostPermissions{}, func(s *job.Spec) { s.IPC = job.PrivateIPC }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &job.Spec{}
			c.want(s)
			err := c.allowed.CheckSpec(s)
			switch forbidden := (*ForbiddenSpecError)(nil); {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && (!errors.As(err, &forbidden) || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want …%s…", err, c.refused)
			}
		})
	}
}
