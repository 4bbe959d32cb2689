package admission

import (
	"errors"
	"strings"
	"testing"

	"mesos-gpu/job"
)

func TestHostPathsAndIPCNeedPermission(t *testing.T) {
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
		{"no volumes", HostPermissions{}, volume(), ""},
		{"named volume", HostPermissions{}, volume("scratch"), ""},
		{"path without permission", HostPermissions{}, volume("/data"),
			"volumes: /data is the agent's own: the scheduler's operator allows such paths by --allow-volumes, and has allowed none"},
		{"allowed path", HostPermissions{Volumes: []string{"/data"}}, volume("/data"), ""},
		{"path below an allowed one", HostPermissions{Volumes: []string{"/scratch", "/data/"}}, volume("/data/a/b"), ""},
		{"path with an allowed prefix as text", HostPermissions{Volumes: []string{"/data"}}, volume("/database"), "/database is the agent's own"},
		{"parent of an allowed path", HostPermissions{Volumes: []string{"/data/a"}}, volume("/data"), "and has allowed /data/a"},
		{"one of two paths not allowed", HostPermissions{Volumes: []string{"/data"}}, volume("/data", "/etc"), "volumes: /etc is"},
		{"root allowed", HostPermissions{Volumes: []string{"/"}}, volume("/etc", "/"), ""},
		{"allowed path with dot-dot", HostPermissions{Volumes: []string{"/data/../srv"}}, volume("/srv/x"), ""},
		{"path before dot-dot is not allowed", HostPermissions{Volumes: []string{"/data/../srv"}}, volume("/data"), "/data is the agent's own"},
		{"devices", HostPermissions{Devices: []string{"/dev/fuse"}},
			func(s *job.Spec) { s.Devices = []string{"/dev/infiniband"} },
			"devices: /dev/infiniband is the agent's own: the scheduler's operator allows such devices by --allow-devices, and has allowed /dev/fuse"},
		{"devices of a folder", HostPermissions{Devices: []string{"/dev/infiniband"}},
			func(s *job.Spec) { s.Devices = []string{"/dev/infiniband/uverbs0", "/dev/infiniband"} }, ""},
		{"a device with a longer name", HostPermissions{Devices: []string{"/dev/infiniband"}},
			func(s *job.Spec) { s.Devices = []string{"/dev/infiniband2"} }, "has allowed /dev/infiniband"},
		{"host IPC", HostPermissions{Volumes: []string{"/"}}, func(s *job.Spec) { s.IPC = job.HostIPC },
			"ipc: host is the agent's own: the scheduler's operator allows it by --allow-host-ipc, and has not"},
		{"host IPC allowed", HostPermissions{HostIPC: true}, func(s *job.Spec) { s.IPC = job.HostIPC }, ""},
		{"volume by docker option", HostPermissions{Volumes: []string{"/data"}}, option("volume", "/etc:/x"), "parameters: /etc is"},
		{"volume by short docker option", HostPermissions{}, option("v", "/etc:/x:ro"), "parameters: /etc is"},
		{"requested path with dot-dot", HostPermissions{Volumes: []string{"/data"}}, option("v", "/data/../etc:/x"), "parameters: /data/../etc is"},
		{"allowed path by docker option", HostPermissions{Volumes: []string{"/data"}}, option("v", "/data/a:/x"), ""},
		{"named volume by docker option", HostPermissions{}, option("v", "scratch:/x"), ""},
		{"fetch agent file", HostPermissions{}, func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "/etc/shadow"}} }, "fetch: /etc/shadow is"},
		{"fetch file URI with dot-dot", HostPermissions{Volumes: []string{"/data"}},
			func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "file:///data/../etc/x"}} }, "/etc/x is"},
		{"fetch file URI with host", HostPermissions{Volumes: []string{"/data"}}, fetch("file://localhost/etc/shadow"), "fetch: /etc/shadow is"},
		{"fetch file URI in upper case", HostPermissions{Volumes: []string{"/data"}}, fetch("FILE://LocalHost/etc/shadow"), "fetch: /etc/shadow is"},
		{"fetch file URI without slashes", HostPermissions{Volumes: []string{"/data"}}, fetch("file:/etc/shadow"), "fetch: /etc/shadow is"},
		{"fetch path that contains a scheme", HostPermissions{Volumes: []string{"/data"}}, fetch("/data/x://../../etc/shadow"),
			"fetch: /data/x://../../etc/shadow is"},
		{"fetch file URI of another host", HostPermissions{Volumes: []string{"/data"}}, fetch("file://data/x"), "fetch: data/x is"},
		{"fetch relative path", HostPermissions{Volumes: []string{"/data"}}, fetch("x/y"), "fetch: x/y is"},
		{"fetch allowed file URI with host", HostPermissions{Volumes: []string{"/data"}}, fetch("file://localhost/data/x"), ""},
		{"fetch allowed file URI", HostPermissions{Volumes: []string{"/data"}}, func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "file:///data/x"}} }, ""},
		{"fetch over https", HostPermissions{}, func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: "https://example.org/x"}} }, ""},
		{"host IPC by docker option", HostPermissions{}, option("ipc", "host"), "ipc: host is"},
		{"private IPC", HostPermissions{}, func(s *job.Spec) { s.IPC = job.PrivateIPC }, ""},
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

// Allowed paths are absolute. Each other one is reported.
func TestAllowedVolumesAreAbsolute(t *testing.T) {
	if err := (&HostPermissions{Volumes: []string{"/", "/data"}}).Validate(); err != nil {
		t.Error(err)
	}
	err := (&HostPermissions{Volumes: []string{"data", "/data", "./scratch"}}).Validate()
	for _, want := range []string{`"data" is not an absolute path`, `"./scratch" is not an absolute path`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
