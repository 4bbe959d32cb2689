package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

func TestVolumesOfTwoRolesHaveDifferentNames(t *testing.T) {
	roles, names := []string{"a", "a/b", "a__b", "a_b", "a.b", "A", "*", "a_2e", "prod", "a/b/c"}, []string{"v", "b.v", "b", "__b", "_2e.v"}
	seen := map[string]string{}
	for _, role := range roles {
		for _, name := range names {
			engine := RoleVolume(role, name)
			if other := seen[engine]; other != "" {
				t.Errorf("%s of role %s has the name of %s: %s", name, role, other, engine)
			}
			seen[engine] = name + " of role " + role
			if err := (job.DockerParameter{Key: "volume", Value: engine + ":/v"}).Validate(); err != nil {
				t.Errorf("role %s: %v", role, err)
			}
		}
	}
	if got := RoleVolume("azAZ09-", "v"); got != "mesos-gpu.azAZ09-.v" {
		t.Errorf("letters, digits and hyphens became %s", got)
	}
	if got := RoleVolume("research/vision", "model"); got != "mesos-gpu.research__vision.model" {
		t.Errorf("got %s, want the documented name", got)
	}
}

func TestNamedVolumesAreResolvedToTheirRole(t *testing.T) {
	s := &job.Spec{}
	s.Volumes = []job.Volume{{Source: "own", Target: "/a"}, {Source: "shared", Target: "/b"}, {Source: "/data", Target: "/c"}}
	s.Parameters = []job.DockerParameter{
		{Key: "v", Value: "own:/d:ro"},
		{Key: "volume", Value: "shared:/e"},
		{Key: "volume", Value: "/data:/f"},
		{Key: "init", Value: "true"},
	}
	before := *s
	allowed := HostPermissions{AllowList: &SpecAllowList{RoleVolumes: true, NamedVolumes: []string{"shared"}}}
	got := allowed.ResolveVolumes(s, "prod")
	var sources []string
	for _, v := range got.Volumes {
		sources = append(sources, v.Source)
	}
	for _, p := range got.Parameters {
		sources = append(sources, p.Value)
	}
	if diff := cmp.Diff([]string{"mesos-gpu.prod.own", "shared", "/data", "mesos-gpu.prod.own:/d:ro", "shared:/e", "/data:/f", "true"}, sources); diff != "" {
		t.Error(diff)
	}
	if s.Volumes[0].Source != "own" || s.Parameters[0].Value != "own:/d:ro" {
		t.Error("the job in the queue was changed")
	}
	for name, p := range map[string]HostPermissions{"no access file": {}, "all shared": {AllowList: &SpecAllowList{NamedVolumes: []string{"*"}}}} {
		if p.ResolveVolumes(s, "prod") != s {
			t.Errorf("%s: names were changed from %v", name, before.Volumes)
		}
	}
}

// TestNamedVolumesOfUnixUsersAreTheirOwn: two users of a machine in one role have different volumes of the same name, and the
// name of neither is one of a role.
func TestNamedVolumesOfUnixUsersAreTheirOwn(t *testing.T) {
	allowed := HostPermissions{AllowList: &SpecAllowList{RoleVolumes: true, NamedVolumes: []string{"*"}}}
	if name := UserVolume("alice", "model"); name != "mesos-gpu-user.alice.model" || allowed.AllowList.sharesVolume(name) {
		t.Errorf("the volume of alice is %s, and shared", name)
	}
	allowed.AllowList.NamedVolumes = nil
	for owner, want := range map[string]string{
		"unix:alice": "mesos-gpu-user.alice.model", "unix:bob": "mesos-gpu-user.bob.model", "alice": "mesos-gpu.prod.model",
	} {
		s := &job.Spec{Owner: owner}
		s.Volumes = []job.Volume{{Source: "model", Target: "/m"}}
		if got := allowed.ResolveVolumes(s, "prod").Volumes[0].Source; got != want {
			t.Errorf("%s mounts %s, want %s", owner, got, want)
		}
	}
}

// Files may be fetched from every host without an allow list, and from none with one that lists none.
func TestFetchHostsOfAllowList(t *testing.T) {
	listed := job.FetchHosts{"files.example"}
	if got := (&HostPermissions{}).FetchHosts(); got != nil {
		t.Errorf("without an allow list: %v", got)
	}
	if got := (&HostPermissions{AllowList: &SpecAllowList{}}).FetchHosts(); got == nil || len(got) != 0 {
		t.Errorf("without hosts in the list: %#v, want an empty list", got)
	}
	if got := (&HostPermissions{AllowList: &SpecAllowList{FetchHosts: listed}}).FetchHosts(); !cmp.Equal(got, listed) {
		t.Errorf("got %v, want %v", got, listed)
	}
}
