package admission

import (
	"errors"
	"strings"
	"testing"

	"mesos-gpu/job"
)

func TestAllowListRejectsUnlistedRequests(t *testing.T) {
	all := SpecAllowList{Networks: []string{"*"}, Images: []string{"*"}, Parameters: []string{"*"}, NoImage: true}
	but := func(change func(*SpecAllowList)) SpecAllowList { b := all; change(&b); return b }
	images := func(list ...string) SpecAllowList { return but(func(b *SpecAllowList) { b.Images = list }) }
	image := func(name string) func(*job.Spec) { return func(s *job.Spec) { s.Image = name } }
	network := func(n job.NetworkMode) func(*job.Spec) { return func(s *job.Spec) { s.Network = n } }
	option := func(key, value string) func(*job.Spec) {
		return func(s *job.Spec) { s.Parameters = []job.DockerParameter{{Key: key, Value: value}} }
	}
	fetch := func(uri string) func(*job.Spec) {
		return func(s *job.Spec) { s.Fetch = []job.FetchArtifact{{URI: uri}} }
	}
	volume := func(name string) func(*job.Spec) {
		return func(s *job.Spec) { s.Volumes = []job.Volume{{Source: name, Target: "/v"}} }
	}
	for _, c := range []struct {
		name    string
		bounds  SpecAllowList
		want    func(*job.Spec)
		refused string
	}{
		{"everything allowed", all, network(job.HostNetwork), ""},
		{"host network by default", but(func(b *SpecAllowList) { b.Networks = nil }), network(""),
			"network: host is more than the task's own: the access file allows none to jobs of this role; use bridge or none, or have it allowed"},
		{"host network without an image", but(func(b *SpecAllowList) { b.Networks = nil }), image(""),
			"tasks without an image use the agent's network: have networks: [host] allowed"},
		{"host network allowed", but(func(b *SpecAllowList) { b.Networks = []string{"host"} }), network(""), ""},
		{"bridge network", but(func(b *SpecAllowList) { b.Networks = nil }), network(job.BridgeNetwork), ""},
		{"no network", but(func(b *SpecAllowList) { b.Networks = nil }), network(job.NoNetwork), ""},
		{"engine network", but(func(b *SpecAllowList) { b.Networks = []string{"host"} }), network("calico"), "network: calico"},
		{"network by docker option", but(func(b *SpecAllowList) { b.Networks = nil }), func(s *job.Spec) {
			s.Network = job.BridgeNetwork
			option("network", "host")(s)
		}, "network: host"},
		{"network by short docker option", but(func(b *SpecAllowList) { b.Networks = nil }), func(s *job.Spec) {
			s.Network = job.BridgeNetwork
			option("net", "calico")(s)
		}, "network: calico"},
		{"no image", but(func(b *SpecAllowList) { b.NoImage = false }), image(""), "image: without one the task sees its agent's files"},
		{"empty image list", images(), image("debian"), "image: debian is not allowed: the access file allows jobs of this role: none"},
		{"repository", images("debian"), image("debian"), ""},
		{"tag of an allowed repository", images("debian"), image("debian:12"), ""},
		{"digest of an allowed repository", images("debian"), image("debian@sha256:aa"), ""},
		{"registry named like an allowed repository", images("debian"), image("debian:5000/evil"), "debian:5000/evil is not allowed"},
		{"repository with an allowed prefix as text", images("debian"), image("debianx"), "debianx is not allowed"},
		{"repository below an allowed one", images("debian"), image("debian/x"), "debian/x is not allowed"},
		{"other tag", images("debian:12"), image("debian:13"), "debian:13 is not allowed"},
		{"tag with an allowed prefix as text", images("debian:12"), image("debian:123"), "debian:123 is not allowed"},
		{"digest of an allowed tag", images("debian:12"), image("debian:12@sha256:aa"), ""},
		{"registry with a port", images("r:5000/x"), image("r:5000/x:1"), ""},
		{"wildcard below a registry", images("registry.example.org/*"), image("registry.example.org/a/b:1"), ""},
		{"empty repository below a wildcard", images("registry.example.org/*"), image("registry.example.org/"), "is not allowed"},
		{"registry with an allowed prefix as text", images("registry.example.org/*"), image("registry.example.org.evil/a"), "is not allowed"},
		{"dot-dot below a wildcard", images("registry.example.org/*"), image("registry.example.org/../evil"), "is not allowed"},
		{"docker option", but(func(b *SpecAllowList) { b.Parameters = []string{"init"} }), option("cap-add", "NET_ADMIN"),
			"parameters: cap-add=NET_ADMIN: the access file allows init"},
		{"docker option with an allowed value", but(func(b *SpecAllowList) { b.Parameters = []string{"cap-add=IPC_LOCK"} }), option("cap-add", "cap_ipc_lock"), ""},
		{"docker option with another value", but(func(b *SpecAllowList) { b.Parameters = []string{"cap-add=IPC_LOCK"} }),
			option("cap-add", "NET_ADMIN"), "parameters: cap-add=NET_ADMIN: the access file allows cap-add=IPC_LOCK"},
		{"short docker option with an allowed value", but(func(b *SpecAllowList) { b.Parameters = []string{"hostname=a"} }), option("h", "a"), ""},
		{"docker option with a value allowed by the short name", but(func(b *SpecAllowList) { b.Parameters = []string{"h=a"} }), option("hostname", "a"), ""},
		{"capability allowed by its other name", but(func(b *SpecAllowList) { b.Parameters = []string{"cap-add=cap_ipc_lock"} }), option("cap-add", "IPC_LOCK"), ""},
		{"fetch without a list", all, fetch("https://example.org/x"), "fetch: example.org:443: the access file allows jobs of this role to fetch from no host"},
		{"fetch from an allowed host", but(func(b *SpecAllowList) { b.FetchHosts = job.FetchHosts{"*.example.org"} }), fetch("https://a.example.org/x"), ""},
		{"fetch from the agent itself", but(func(b *SpecAllowList) { b.FetchHosts = job.FetchHosts{"*"} }),
			fetch("http://127.0.0.1:5051/state"), "fetch: 127.0.0.1:5051"},
		{"named volume", all, volume("scratch"), "volumes: scratch: the access file allows jobs of this role to mount these named volumes: none"},
		{"named volume by docker option", all, option("v", "scratch:/x"), "volumes: scratch: "},
		{"named volume of the role", but(func(b *SpecAllowList) { b.RoleVolumes = true }), volume("scratch"), ""},
		{"shared named volume", but(func(b *SpecAllowList) { b.NamedVolumes = []string{"scratch"} }), volume("scratch"), ""},
		{"other named volume", but(func(b *SpecAllowList) { b.NamedVolumes = []string{"scratch"} }), volume("other"), "volumes: other: "},
		{"every shared named volume", but(func(b *SpecAllowList) { b.NamedVolumes = []string{"*"} }), volume("scratch"), ""},
		{"volume of another role by a star", but(func(b *SpecAllowList) { b.NamedVolumes = []string{"*"} }),
			volume(RoleVolume("prod", "model")), "volumes: mesos-gpu.prod.model: "},
		{"volume of another role by its name", but(func(b *SpecAllowList) { b.NamedVolumes = []string{"mesos-gpu.prod.model"} }),
			volume(RoleVolume("prod", "model")), ""},
		{"user", but(func(b *SpecAllowList) { b.Users = nil }),
			func(s *job.Spec) { s.User, s.Containerizer = "root", job.Mesos }, "user: root: the access file allows none"},
		{"user without image", but(func(b *SpecAllowList) { b.Users = nil }), func(s *job.Spec) { s.Image, s.User = "", "root" }, "user: root"},
		{"allowed user", but(func(b *SpecAllowList) { b.Users = []string{"daemon"} }), func(s *job.Spec) { s.User = "daemon" }, ""},
		{"number of an allowed user", but(func(b *SpecAllowList) { b.Users = []string{"root"} }),
			func(s *job.Spec) { s.User = "0" }, "user: 0: the access file allows root"},
		{"any user allowed", but(func(b *SpecAllowList) { b.Users = []string{"*"} }), func(s *job.Spec) { s.User = "0:0" }, ""},
		{"user by docker option", but(func(b *SpecAllowList) { b.Users = []string{"daemon"} }), option("user", "0"), "user: 0"},
		{"user by short docker option", but(func(b *SpecAllowList) { b.Users = nil }), option("u", "root"), "user: root"},
		{"allowed docker option", but(func(b *SpecAllowList) { b.Parameters = []string{"init"} }), option("init", "true"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &job.Spec{Image: "debian:12"}
			c.want(s)
			err := (&HostPermissions{AllowList: &c.bounds}).CheckSpec(s)
			switch forbidden := (*ForbiddenSpecError)(nil); {
			case c.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.refused != "" && (!errors.As(err, &forbidden) || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want …%s…", err, c.refused)
			}
		})
	}
}

func TestImagePatternAllowsStarOnlyAsWholePath(t *testing.T) {
	for pattern, good := range map[string]bool{
		"*": true, "debian": true, "debian:12": true, "registry:5000/team/*": true, "registry/*": true,
		"": false, "/*": false, "registry*": false, "*/debian": false, "a/*/b": false, "a/**": false,
	} {
		if err := ValidateImagePattern(pattern); (err == nil) != good {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// TestNearestRoleDeterminesPermissions checks that a role has exactly the permissions of the nearest entry at or above it, or those
// for all roles if there is no such entry.
func TestNearestRoleDeterminesPermissions(t *testing.T) {
	general := &HostPermissions{Volumes: []string{"/flag"}}
	if got := PermissionsFor("a", general, nil).Volumes[0]; got != "/flag" {
		t.Errorf("without entries: %s", got)
	}
	var entries []RolePermissions
	for _, role := range []string{"a/b", "/", "a"} {
		entries = append(entries, RolePermissions{role, HostPermissions{Volumes: []string{"of " + role}}})
	}
	for role, want := range map[string]string{"a": "a", "a/b": "a/b", "a/b/c": "a/b", "a/c": "a", "ab": "/", "*": "/", "x": "/"} {
		if got := PermissionsFor(role, general, entries).Volumes[0]; got != "of "+want {
			t.Errorf("role %s: %s, want that of %s", role, got, want)
		}
	}
}

// TestAllowListErrorsNameTheAccessFile checks that errors name the access file, not flags, if the allow list comes
// from one.
func TestAllowListErrorsNameTheAccessFile(t *testing.T) {
	s := &job.Spec{Image: "debian:12"}
	s.Volumes, s.IPC = []job.Volume{{Source: "/data", Target: "/data"}}, job.HostIPC
	err := (&HostPermissions{AllowList: &SpecAllowList{}}).CheckSpec(s)
	if err == nil || strings.Contains(err.Error(), "--allow") || strings.Count(err.Error(), "access file") != 4 {
		t.Errorf("got %v", err)
	}
}

// An empty allow list permits the networks of a task's own. "*" permits every option; an entry with a value permits that
// value, and only capabilities may be written in another way.
func TestAllowListEntries(t *testing.T) {
	for _, c := range []struct {
		name      string
		list      SpecAllowList
		change    func(*job.Spec)
		permitted bool
	}{
		{"bridge network", SpecAllowList{}, func(s *job.Spec) { s.Network = job.BridgeNetwork }, true},
		{"no network", SpecAllowList{}, func(s *job.Spec) { s.Network = job.NoNetwork }, true},
		{"network of the host", SpecAllowList{}, func(s *job.Spec) { s.Network = job.HostNetwork }, false},
		{"any option", SpecAllowList{Parameters: []string{"*"}}, func(s *job.Spec) { s.Parameters = []job.DockerParameter{{Key: "label", Value: "a"}} }, true},
		{"capability in another form", SpecAllowList{Parameters: []string{"cap-add=SYS_PTRACE"}},
			func(s *job.Spec) { s.Parameters = []job.DockerParameter{{Key: "cap-add", Value: "cap_sys_ptrace"}} }, true},
		{"value in another form", SpecAllowList{Parameters: []string{"label=SYS_PTRACE"}},
			func(s *job.Spec) { s.Parameters = []job.DockerParameter{{Key: "label", Value: "cap_sys_ptrace"}} }, false},
	} {
		s := &job.Spec{}
		s.Network = job.BridgeNetwork
		c.change(s)
		c.list.NoImage = true
		if err := (&HostPermissions{AllowList: &c.list}).CheckSpec(s); (err == nil) != c.permitted {
			t.Errorf("%s: got %v, want it permitted: %t", c.name, err, c.permitted)
		}
	}
}
