package gate

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
)

// TestSignInExchangesCodes checks that a code is sent to the issuer with its verifier and the
// client's secret, and that only a valid identity token is returned.
func TestSignInExchangesCodes(t *testing.T) {
	i, key := newTestIssuer(t), rsaKey(t)
	i.publish(key, "one")
	secret := filepath.Join(t.TempDir(), "secret")
	writeFile(t, secret, "s3cret\n")
	file := strings.Replace(i.accessFile(t, ""), "name: email", "name: email, sign_in: true, secret: "+secret+", scopes: [openid, groups]", 1)
	g, _, _ := openGate(t, file)
	want := &api.OIDCSignIn{Issuer: i.URL, ClientID: "mesos-gpu", AuthorizationEndpoint: i.URL + "/authorize", Scopes: "openid groups"}
	if diff := cmp.Diff(want, g.DescribeSignIn(t.Context())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	good := signToken(t, jose.RS256, key, "one", i.claims(nil))
	var status int
	var token string
	i.answerCode = func(w http.ResponseWriter, r *http.Request) {
		user, password, basic := r.BasicAuth()
		for name, value := range map[string]string{"grant_type": "authorization_code", "code": "c", "code_verifier": "v", "redirect_uri": "https://s1/"} {
			if got := r.PostFormValue(name); got != value {
				t.Errorf("%s is %q, want %q", name, got, value)
			}
		}
		if !basic || user != "mesos-gpu" || password != "s3cret" {
			t.Errorf("the client is %q with %q", user, password)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		body := map[string]string{"access_token": "a", "token_type": "bearer", "id_token": token}
		if status != http.StatusOK {
			body = map[string]string{"error": "invalid_grant", "error_description": "code is used"}
		}
		_ = json.NewEncoder(w).Encode(body)
	}
	for _, c := range []struct {
		name, token, code string
		status, want      int
		why               string
	}{
		{"good", good, "c", 200, 0, ""},
		{"used code", good, "c", 400, 401, "the issuer rejects the sign-in: code is used"},
		{"failing issuer", good, "c", 500, 503, ""},
		{"redirect", good, "c", 302, 401, ""},
		{"no identity token", "", "c", 200, 401, "no identity token"},
		{"another's token", signToken(t, jose.RS256, rsaKey(t), "one", i.claims(nil)), "c", 200, 401, "not a valid token"},
		{"no code", good, "", 200, 422, "required"},
		{"long code", good, strings.Repeat("c", maxCodeLength+1), 200, 422, "at most"},
	} {
		status, token = c.status, c.token
		got, err := g.ExchangeCode(t.Context(), api.CodeExchange{Code: c.code, CodeVerifier: "v", RedirectURI: "https://s1/"})
		p, _ := errors.AsType[*api.Problem](err)
		switch {
		case c.want == 0 && (err != nil || got != good):
			t.Errorf("%s: %v", c.name, err)
		case c.want != 0 && (p == nil || p.Status != c.want || !strings.Contains(p.Detail, c.why) || got != ""):
			t.Errorf("%s: got %v, want %d %s", c.name, err, c.want, c.why)
		}
	}
}

// TestSignInIsOffByDefault checks that an issuer without sign_in serves only its tokens.
func TestSignInIsOffByDefault(t *testing.T) {
	i := newTestIssuer(t)
	g, _, _ := openGate(t, i.accessFile(t, ""))
	if v := g.DescribeSignIn(t.Context()); v != nil {
		t.Errorf("sign-in is offered: %+v", v)
	}
	if _, err := g.ExchangeCode(t.Context(), api.CodeExchange{Code: "c", CodeVerifier: "v", RedirectURI: "https://s1/"}); err == nil {
		t.Error("a code is accepted")
	}
}
