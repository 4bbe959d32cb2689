package access

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

const hash = "$2a$10$8e/0D4RQ7uuqv8U0hJQPC.BIe.5CQ1WTSMR0pGv2mVKmoPzXBb0t6"

// exampleFile returns the example in docs/guides/security.md.
func exampleFile(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(tokens:.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/guides/security.md shows no access file")
	}
	return m[1]
}

// TestPackagedFile checks that the packaged example is valid, grants no access by itself, and
// has every key except those of the issuer.
func TestPackagedFile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "etc", "access.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	if p.OpenMetrics || p.OIDC != nil || len(p.Rules) == 0 || len(p.JobLimits) == 0 {
		t.Errorf("read %+v", p)
	}
	// The commented-out parts are valid too.
	whole := regexp.MustCompile(`(?m)^# (oidc:|  [a-z]+: |metrics: )`).ReplaceAll(text, []byte("$1"))
	if p, err = ParsePolicy(whole); err != nil || p.OIDC == nil || !p.OpenMetrics {
		t.Errorf("with all keys: %+v, %v", p, err)
	}
}

// TestDocumentedFile checks that the documented example is valid and has the described effect.
func TestDocumentedFile(t *testing.T) {
	p, err := ParsePolicy(exampleFile(t))
	if err != nil {
		t.Fatal(err)
	}
	alice := p.GrantFor(Identity{Name: "oidc:alice@example.org", Groups: []string{"oidc:vision"}})
	if !alice.HasPermission(Submit, "research/vision") || alice.HasPermission(Operate, "research/vision") ||
		!alice.HasPermission(View, "prod") || alice.HasPermission(Submit, "prod") {
		t.Error("alice may the wrong things")
	}
	if ci := p.GrantFor(Identity{Name: "ci", Groups: []string{"robots"}}); !ci.HasPermission(Operate, "prod") || ci.HasPermission(View, "research") == false {
		t.Error("ci may the wrong things")
	}
	if ops := p.GrantFor(Identity{Name: "oidc:x", Groups: []string{"oidc:operators"}}); !ops.HasPermissionOnAllRoles(Admin) {
		t.Error("operators may not do all")
	}
	if p.OIDC == nil || p.OIDC.NameClaim != "email" || !p.OpenMetrics {
		t.Errorf("read %+v", p)
	}
	want := map[string]admission.HostPermissions{
		"/": {Volumes: []string{"/data/public"}, AllowList: &admission.SpecAllowList{
			Images:      []string{"registry.example.org/*", "debian"},
			FetchHosts:  job.FetchHosts{"*.example.org"},
			RoleVolumes: true,
		}},
		"prod": {Volumes: []string{"/data"}, Devices: []string{"/dev/infiniband"}, HostIPC: true, AllowList: &admission.SpecAllowList{
			Networks:     []string{"host"},
			Images:       []string{"*"},
			FetchHosts:   job.FetchHosts{"mirror.example.org:8080"},
			NamedVolumes: []string{"models"},
			RoleVolumes:  true,
			Parameters:   []string{"init", "ulimit", "cap-add=IPC_LOCK"},
			Users:        []string{"nobody"},
			NoImage:      true,
		}},
	}
	got := map[string]admission.HostPermissions{}
	for _, j := range p.JobLimits {
		got[j.Role] = j.Permissions
	}
	empty := cmp.Transformer("empty", func(list []string) string { return strings.Join(list, ",") })
	if diff := cmp.Diff(want, got, empty); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	p, err := ParsePolicy([]byte("oidc: {issuer: 'https://x', audience: a}\npermissions: [{may: view, roles: [/], groups: ['*']}]"))
	if err != nil {
		t.Fatal(err)
	}
	if p.OIDC.NameClaim != "sub" || p.OIDC.GroupsClaim != "groups" || p.OpenMetrics {
		t.Errorf("read %+v", p.OIDC)
	}
	if len(p.JobLimits) != 1 || p.JobLimits[0].Role != "/" || p.JobLimits[0].Permissions.AllowList == nil || p.JobLimits[0].Permissions.AllowList.NoImage {
		t.Errorf("jobs may have %+v", p.JobLimits)
	}
}

func TestInvalidFiles(t *testing.T) {
	token := "tokens: [{name: ci, groups: [robots], hash: '" + hash + "'}]\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":                {"", "the access file is empty"},
		"no YAML":              {"tokens: [", "read YAML"},
		"two documents":        {token + "---\nx: 1", "more follows"},
		"a list":               {"- x", "line 1: a mapping is wanted here, with jobs, metrics"},
		"an unknown key":       {token + "permission: []", `line 2: unknown key "permission": there are jobs, metrics, oidc, output, permissions, run_as, tokens`},
		"an unknown inner key": {token + "permissions:\n- {may: view, roles: [a], user: [ci]}", `line 3: unknown key "user"`},
		"a key twice":          {"tokens: []\ntokens: []", "line 2: tokens appears twice"},
		"no list":              {"tokens: {}", "line 1: a list is wanted here"},
		"no text":              {"tokens: [{name: [a], hash: x}]", "a text is wanted here"},
		"an alias":             {"tokens: &a []\npermissions: *a", "line 2: a list is wanted here"},
		"a strange name":       {"tokens: [{name: a.b, hash: '" + hash + "'}]", `token name "a.b"`},
		"no hash":              {"tokens: [{name: a}]", "needs name and hash"},
		"a bad hash":           {"tokens: [{name: a, hash: secret}]", "neither a SHA-256 hash such as mesos-gpu token prints nor a bcrypt hash"},
		"a cheap hash":         {"tokens: [{name: a, hash: '" + strings.Replace(hash, "$10$", "$04$", 1) + "'}]", "cost of 4 is not between 10 and 14"},
		"an expensive hash":    {"tokens: [{name: a, hash: '" + strings.Replace(hash, "$10$", "$31$", 1) + "'}]", "cost of 31"},
		"a token twice":        {"tokens: [{name: a, hash: '" + hash + "'}, {name: a, hash: '" + hash + "'}]", "tokens: a appears twice"},
		"everybody's token":    {"tokens: [{name: a, hash: '" + hash + "', groups: ['*']}]", `group "*"`},
		"an issuer's group":    {"tokens: [{name: a, hash: '" + hash + "', groups: ['oidc:x']}]", "begins an issuer's groups"},
		"a bad permission":     {token + "permissions:\n- {may: root, roles: [a], users: [ci]}", `line 3: may: "root" is not one of view, submit, operate, admin`},
		"no roles":             {token + "permissions:\n- {may: view, users: [ci]}", "line 3: a permission needs"},
		"no user":              {token + "permissions:\n- {may: view, roles: [a]}", "line 3: a permission needs"},
		"a role with a slash":  {token + "permissions:\n- {may: view, roles: [/a], users: [ci]}", `role "/a" begins or ends`},
		"a role with a star":   {token + "permissions:\n- {may: view, roles: [a/*], users: [ci]}", "a role includes all roles below"},
		"an unknown user":      {token + "permissions:\n- {may: view, roles: [a], users: [cj]}", `line 3: user "cj": no token identifies that user`},
		"an unknown group":     {token + "permissions:\n- {may: view, roles: [a], groups: [ci]}", `line 3: group "ci": no token is of it`},
		"no issuer":            {token + "permissions:\n- {may: view, roles: [a], groups: ['oidc:x']}", "the file has no oidc section"},
		"a plain issuer":       {"oidc: {issuer: 'http://x.example', audience: a}", "is not an https URL"},
		"a secret for nothing": {"oidc: {issuer: 'https://x', audience: a, secret: /s}", "set sign_in: true"},
		"no scope openid":      {"oidc: {issuer: 'https://x', audience: a, sign_in: true, scopes: [email]}", "scopes need openid"},
		"no audience":          {"oidc: {issuer: 'https://x'}", "oidc needs an audience"},
		"jobs of no role":      {"jobs: [{images: [a]}]", "needs roles"},
		"jobs of one twice":    {"jobs: [{roles: [a]}, {roles: [a]}]", "jobs: role a appears twice"},
		"a relative volume":    {"jobs: [{roles: [a], volumes: [data]}]", "not an absolute path"},
		"a GPU as device":      {"jobs: [{roles: [a], devices: [/dev/nvidia0]}]", "/dev/nvidia0 belongs to GPUs"},
		"a wide image":         {"jobs: [{roles: [a], images: ['reg*']}]", `image "reg*"`},
		"no flag":              {"jobs: [{roles: [a], host_ipc: 1}]", `"1" is not one of true, false`},
		"metrics":              {"metrics: yes", `"yes" is not one of open, closed`},
		"root by a token":      {"run_as: owner\ntokens: [{name: a, unix_user: root, hash: '" + hash + "'}]", `unix user "root": use the name of an account`},
		"a number":             {"run_as: owner\ntokens: [{name: a, unix_user: \"0\", hash: '" + hash + "'}]", `unix user "0"`},
		"a unix user too much": {"tokens: [{name: a, unix_user: alice, hash: '" + hash + "'}]", "unix_user of a needs run_as: owner"},
		"a claim too much":     {"oidc: {issuer: 'https://x', audience: a, unix_user: login}", "oidc: unix_user needs run_as: owner"},
		"whom to run as":       {"run_as: alice", `"alice" is not one of owner, process_user`},
		"a token that is a unix user": {
			"run_as: owner\ntokens: [{name: a, unix_user: alice, hash: '" + hash + "'}]\npermissions: [{may: view, roles: [/], users: [a]}]",
			`user "a": no token identifies that user`,
		},
		"too much": {"#" + strings.Repeat("x", MaxPolicySize), "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParsePolicy([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

// FuzzParse checks that any file is rejected, or grants only what its rules grant.
func FuzzParse(f *testing.F) {
	f.Add(exampleFile(f))
	f.Add([]byte("permissions: [{may: view, roles: [/], groups: ['*']}]"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePolicy(data)
		if err != nil {
			return
		}
		if p.GrantFor(Identity{}).HasPermissionOnAnyRole(View) {
			t.Error("an unknown user has a permission")
		}
		for _, r := range p.Rules {
			if r.Permission <= None || len(r.Roles) == 0 || len(r.Users)+len(r.Groups) == 0 {
				t.Errorf("a rule without its parts: %+v", r)
			}
		}
		root := false
		for _, j := range p.JobLimits {
			root = root || j.Role == admission.AllRoles
			if j.Permissions.AllowList == nil {
				t.Errorf("role %s has no bounds", j.Role)
			}
		}
		if !root {
			t.Error("some role has no bounds")
		}
	})
}
