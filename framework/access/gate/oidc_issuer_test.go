package gate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/api"

	"github.com/go-jose/go-jose/v4"
)

// testIssuer is a small OIDC issuer over TLS.
type testIssuer struct {
	*httptest.Server
	down        atomic.Bool
	keyRequests atomic.Int32     // number of requests for keys
	answerCode  http.HandlerFunc // answers the exchange of codes

	mu   sync.Mutex
	keys []jose.JSONWebKey
}

func newTestIssuer(t testing.TB) *testIssuer {
	t.Helper()
	i := &testIssuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w,
			`{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256","ES256"],"authorization_endpoint":%q,"token_endpoint":%q}`,
			i.URL, i.URL+"/keys", i.URL+"/authorize", i.URL+"/token")
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) { i.answerCode(w, r) })
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.keyRequests.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		set := jose.JSONWebKeySet{}
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	})
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.down.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

func rsaKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ecKey(t testing.TB) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// publish replaces the issuer's keys by one key.
func (i *testIssuer) publish(key crypto.Signer, id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = []jose.JSONWebKey{{Key: key, KeyID: id, Use: "sig"}}
}

// claims returns the claims of a valid token, with changes.
func (i *testIssuer) claims(change func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": i.URL, "aud": []string{"mesos-gpu", "other"}, "sub": "1234", "email": "alice@example.org", "email_verified": true,
		"groups": []string{"vision", ""}, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	if change != nil {
		change(c)
	}
	return c
}

func signToken(t testing.TB, alg jose.SignatureAlgorithm, key any, id string, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

// unsignedToken returns a token with the algorithm none.
func unsignedToken(t testing.TB, claims map[string]any) string {
	t.Helper()
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part(text) + "."
}

// accessFile returns an access file that trusts the issuer.
func (i *testIssuer) accessFile(t testing.TB, more string) string {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})))
	return fmt.Sprintf("oidc: {issuer: %s, audience: mesos-gpu, name: email, ca: %s}\n%s", i.URL, ca, more)
}

func TestOIDCTokens(t *testing.T) {
	i, key := newTestIssuer(t), rsaKey(t)
	i.publish(key, "one")
	_, _, ask := openGate(t, i.accessFile(t, ""))
	set := func(name string, value any) func(map[string]any) {
		return func(c map[string]any) { c[name] = value }
	}
	rs := func(change func(map[string]any)) string {
		return signToken(t, jose.RS256, key, "one", i.claims(change))
	}
	parts := strings.Split(rs(nil), ".")
	forged := unsignedToken(t, i.claims(set("email", "root@example.org")))
	for _, c := range []struct {
		name, token, want string
		status            int
	}{
		{"good", rs(nil), "oidc:alice@example.org", 200},
		{"verified, as a text", rs(set("email_verified", "true")), "oidc:alice@example.org", 200},
		{"not verified", rs(set("email_verified", false)), "has not verified", 401},
		{"not verified, as a text", rs(set("email_verified", "false")), "has not verified", 401},
		{"not verified, as a number", rs(set("email_verified", 0)), "has not verified", 401},
		{"verified, as a number", rs(set("email_verified", 1)), "has not verified", 401},
		{"verified is null", rs(set("email_verified", nil)), "has not verified", 401},
		{"of verified nothing is said", rs(func(c map[string]any) { delete(c, "email_verified") }), "has not verified", 401},
		{"one audience", rs(set("aud", "mesos-gpu")), "oidc:alice@example.org", 200},
		{"expired", rs(set("exp", time.Now().Add(-time.Hour).Unix())), "expired", 401},
		{"not yet", rs(set("nbf", time.Now().Add(time.Hour).Unix())), "before the nbf", 401},
		{"another audience", rs(set("aud", "other")), "audience", 401},
		{"no audience", rs(set("aud", nil)), "audience", 401},
		{"another issuer", rs(set("iss", "https://evil.example")), "issue", 401},
		{"no name", rs(set("email", "")), "no claim", 401},
		{"a claim that is no name", rs(set("email", 7)), "no claim", 401},
		{"another's key", signToken(t, jose.RS256, rsaKey(t), "one", i.claims(nil)), "the token is not a valid token of the issuer", 401},
		{"no signature", unsignedToken(t, i.claims(nil)), "the token is not a valid token of the issuer", 401},
		{"another's claims", parts[0] + "." + strings.Split(forged, ".")[1] + "." + parts[2], "the token is not a valid token of the issuer", 401},
		{"signed by what is public", signToken(t, jose.HS256, []byte(strings.Repeat("k", 32)), "one", i.claims(nil)),
			"the token is not a valid token of the issuer", 401},
		{"no token", "x.y.z", "the token is not a valid token of the issuer", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, status := ask(c.token); status != c.status || !strings.Contains(got, c.want) {
				t.Errorf("got %d %s, want %d …%s…", status, got, c.status, c.want)
			}
		})
	}
}

func TestOIDCGroups(t *testing.T) {
	for _, c := range []struct {
		claim any
		want  string
	}{
		{[]any{"a", "", 7, "b"}, "oidc:a oidc:b"}, {"a", "oidc:a"}, {nil, ""}, {7.5, ""}, {map[string]any{"a": "b"}, ""},
	} {
		if got := strings.Join(parseGroups(c.claim), " "); got != c.want {
			t.Errorf("%v: %s", c.claim, got)
		}
	}
}

// TestOIDCKeyRotation checks that a token of a new key is accepted and one of a removed key
// rejected, and that unknown keys cause few requests to the issuer.
func TestOIDCKeyRotation(t *testing.T) {
	i, first, second := newTestIssuer(t), rsaKey(t), ecKey(t)
	i.publish(first, "one")
	g, _, ask := openGate(t, i.accessFile(t, ""))
	wait := freezeClock(g)
	old := signToken(t, jose.RS256, first, "one", i.claims(nil))
	if _, status := ask(old); status != 200 {
		t.Fatalf("token of the first key: status %d", status)
	}
	i.publish(second, "two")
	waitUntil(t, func() bool {
		wait(issuerRetryInterval)
		return answersWith(ask, signToken(t, jose.ES256, second, "two", i.claims(nil)), http.StatusOK)
	})
	waitUntil(t, func() bool { return answersWith(ask, old, http.StatusUnauthorized) })
	before := i.keyRequests.Load()
	wait(issuerRetryInterval)
	for range 20 {
		if _, status := ask(old); status != http.StatusUnauthorized {
			t.Errorf("token of the old key: status %d", status)
		}
	}
	if n := i.keyRequests.Load() - before; n != 1 {
		t.Errorf("%d requests to the issuer for a removed key", n)
	}
}

// freezeClock stops the clock for retries to the issuer; wait advances it.
func freezeClock(g *Gate) (wait func(time.Duration)) {
	now := time.Now()
	clock := func() time.Time { return now }
	is := g.current.Load().issuer
	is.clock, is.transport.clock = clock, clock
	return func(d time.Duration) { now = now.Add(d) }
}

// TestIssuerUnavailable checks that tokens of the file and of known keys still work, and that
// all tokens work again when the issuer is back, without a restart.
func TestIssuerUnavailable(t *testing.T) {
	i, key := newTestIssuer(t), ecKey(t)
	i.publish(key, "one")
	i.down.Store(true)
	token, lines := madeToken(t, "ci")
	g, _, ask := openGate(t, i.accessFile(t, lines))
	wait := freezeClock(g)
	issued := signToken(t, jose.ES256, key, "one", i.claims(nil))
	if got, status := ask(issued); status != http.StatusServiceUnavailable || !strings.Contains(got, "read the keys of issuer") {
		t.Errorf("while the issuer is down: %d %s", status, got)
	}
	if who, _ := ask(token); who != "ci" {
		t.Error("its outage locks out a token of the file")
	}
	i.down.Store(false)
	if _, status := ask(issued); status != http.StatusServiceUnavailable {
		t.Errorf("the issuer was queried again immediately: %d", status)
	}
	wait(issuerRetryInterval)
	if who, status := ask(issued); status != 200 || who != "oidc:alice@example.org" {
		t.Errorf("after the issuer is back: %d %s", status, who)
	}
	i.down.Store(true)
	if _, status := ask(issued); status != 200 {
		t.Errorf("token of a known key: status %d", status)
	}
	next := ecKey(t)
	i.publish(next, "two")
	unknown := signToken(t, jose.ES256, next, "two", i.claims(nil))
	waitUntil(t, func() bool {
		wait(issuerRetryInterval)
		return answersWith(ask, unknown, http.StatusServiceUnavailable)
	})
	waitUntil(t, func() bool {
		wait(issuerRetryInterval)
		return answersWith(ask, unknown, http.StatusServiceUnavailable)
	})
	i.down.Store(false)
	waitUntil(t, func() bool { wait(issuerRetryInterval); return answersWith(ask, unknown, http.StatusOK) })
}

// waitUntil retries for a while, because the library may return its last result again while
// it stores a new one.
func waitUntil(t *testing.T, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute")
		}
	}
}

func answersWith(ask func(string) (string, int), token string, want int) bool {
	_, status := ask(token)
	return status == want
}

// TestIssuerRequestsAreLimited checks that requests for one URL are limited and others are not delayed.
func TestIssuerRequestsAreLimited(t *testing.T) {
	asked, now := 0, time.Now()
	s := &limitedTransport{next: countingTransport{&asked}, clock: func() time.Time { return now }}
	get := func(url string) error {
		res, err := s.RoundTrip(httptest.NewRequest(http.MethodGet, url, nil))
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	if err := get("https://a/keys"); err != nil {
		t.Error(err)
	}
	if err := get("https://a/keys"); err == nil {
		t.Error("a request was repeated immediately")
	}
	if err := get("https://a/other"); err != nil {
		t.Error(err)
	}
	now = now.Add(issuerRetryInterval)
	if err := get("https://a/keys"); err != nil || asked != 3 {
		t.Errorf("after %s: %v, %d requests", issuerRetryInterval, err, asked)
	}
}

type countingTransport struct{ n *int }

func (c countingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	*c.n++
	return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
}

// TestIssuerAddressesRequireTLS checks that keys are never requested over plain HTTP, whatever
// URL the issuer names or redirects to.
func TestIssuerAddressesRequireTLS(t *testing.T) {
	for _, name := range []string{"names", "sends to"} {
		t.Run(name, func(t *testing.T) {
			i, key := newTestIssuer(t), rsaKey(t)
			i.publish(key, "one")
			plain := httptest.NewServer(i.Config.Handler)
			t.Cleanup(plain.Close)
			inner := i.Config.Handler
			i.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/keys":
					http.Redirect(w, r, plain.URL+"/keys", http.StatusFound)
				case name == "names":
					fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, plain.URL+"/keys")
				default:
					inner.ServeHTTP(w, r)
				}
			})
			_, _, ask := openGate(t, i.accessFile(t, ""))
			got, status := ask(signToken(t, jose.RS256, key, "one", i.claims(nil)))
			if status != http.StatusServiceUnavailable || !strings.Contains(got, "the issuer has https, and sends to "+plain.URL) || i.keyRequests.Load() != 0 {
				t.Errorf("%d %s, %d questions for keys", status, got, i.keyRequests.Load())
			}
		})
	}
}

// TestClaimNamesUnixUser checks that a claim names the user of the agents, and that tokens without a proper name of an account are
// rejected.
func TestClaimNamesUnixUser(t *testing.T) {
	i, key := newTestIssuer(t), rsaKey(t)
	i.publish(key, "one")
	_, _, ask := openGate(t, strings.Replace(i.accessFile(t, "run_as: owner\n"), "oidc: {", "oidc: {unix_user: login, ", 1))
	for _, c := range []struct {
		login  any
		want   string
		status int
	}{
		{"alice", "unix:alice", http.StatusOK},
		{nil, `unix user ""`, http.StatusUnauthorized},
		{"root", `unix user "root"`, http.StatusUnauthorized},
		{"0", `unix user "0"`, http.StatusUnauthorized},
		{"a:b", `unix user "a:b"`, http.StatusUnauthorized},
		{[]string{"alice"}, `unix user ""`, http.StatusUnauthorized},
	} {
		got, status := ask(signToken(t, jose.RS256, key, "one", i.claims(func(claims map[string]any) { claims["login"] = c.login })))
		var p api.Problem
		if json.Unmarshal([]byte(got), &p) == nil {
			got = p.Detail
		}
		if status != c.status || !strings.Contains(got, c.want) {
			t.Errorf("login %v: got %q, %d, want %q, %d", c.login, got, status, c.want, c.status)
		}
	}
}
