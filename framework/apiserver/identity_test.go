package apiserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
)

// TestWhoAmI checks what users learn of their permissions, with and without an access file.
func TestWhoAmI(t *testing.T) {
	ask := func(url, user string) (who api.RequesterIdentity) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Who", user)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&who); err != nil || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v, Cache-Control %q", user, err, res.Header.Get("Cache-Control"))
		}
		return who
	}
	f := &fakeBackend{}
	guarded := serveWithPolicy(t, f, rolePolicy())
	open := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger(), WithoutExec(), WithSignIn(fullBackend{f})))
	t.Cleanup(open.Close)
	oidc := filledValue[api.OIDCSignIn]()
	for _, c := range []struct {
		url, user string
		want      api.RequesterIdentity
	}{
		{guarded, "", api.RequesterIdentity{AccessControl: true, Exec: true, Permissions: []api.RolePermission{}}},
		{guarded, "submitter", api.RequesterIdentity{
			User:          "submitter",
			Authenticated: true,
			AccessControl: true,
			Exec:          true,
			Permissions:   []api.RolePermission{{Permission: "submit", Roles: []string{"research"}}},
		}},
		{open.URL, "", api.RequesterIdentity{Authenticated: true, Permissions: []api.RolePermission{{Permission: "admin", Roles: []string{"/"}}}, SignIn: &oidc}},
	} {
		if diff := gocmp.Diff(c.want, ask(c.url, c.user)); diff != "" {
			t.Errorf("%s %q: (-want +got)\n%s", c.url, c.user, diff)
		}
	}
}
