package web_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-jose/go-jose/v4"

	"mesos-gpu/framework"
	"mesos-gpu/internal/testing/mesostest"
)

// oidcServer is an OIDC issuer whose user ada is signed in: it returns with a code at once.
type oidcServer struct {
	*httptest.Server
	mu         sync.Mutex
	challenges map[string]string // PKCE challenges by code
	tamper     bool              // returns with another state
}

func newOIDCServer(t *testing.T) *oidcServer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &oidcServer{challenges: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q}`, s.URL, s.URL+"/keys", s.URL+"/authorize", s.URL+"/token")
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one"}}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("client_id") != "mesos-gpu" || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
			q.Get("scope") != "openid profile email" {
			t.Errorf("the request for a code is %s", r.URL.RawQuery)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		code, state := fmt.Sprintf("code-%d", len(s.challenges)), q.Get("state")
		s.challenges[code] = q.Get("code_challenge")
		if s.tamper {
			state = "forged"
		}
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {state}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		code := r.PostFormValue("code")
		if s.challenges[code] != base64.RawURLEncoding.EncodeToString(sum[:]) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_grant"}`)
			return
		}
		delete(s.challenges, code)
		claims, _ := json.Marshal(map[string]any{"iss": s.URL, "aud": "mesos-gpu", "sub": "ada", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()})
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Error(err)
			return
		}
		token, _ := signed.CompactSerialize()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// TestSignInAtIssuer checks that a user signs in at an OIDC issuer and returns to the view, and
// that an answer of the issuer which this tab has not requested is not accepted.
func TestSignInAtIssuer(t *testing.T) {
	issuer := newOIDCServer(t)
	file, _ := writeAccessFile(t, fmt.Sprintf("oidc: {issuer: '%s', audience: mesos-gpu, sign_in: true}\n", issuer.URL), map[string]string{"oidc:ada": "operate"})
	c := mesostest.NewCluster(t, 2)
	address, _ := startScheduler(t, c, func(cfg *framework.SchedulerConfig) { cfg.API.AccessFile = file })
	p := openTab(t, address+"/#/jobs?state=failed")
	host, err := url.Parse(issuer.URL)
	if err != nil {
		t.Fatal(err)
	}
	p.clickButton("Sign in with " + host.Host)
	p.awaitTrue("document.getElementById('stream')?.textContent === 'live'")
	if got := evalJS[string](p, "location.search + location.hash + ' ' + document.querySelector('#account "+
		"summary').textContent"); got != "#/jobs?state=failed oidc:ada" {
		t.Errorf("after the sign-in the page is at %q", got)
	}
	if evalJS[bool](p, "document.cookie !== '' || Object.keys(sessionStorage).join() !== 'mesos-gpu.token'") {
		t.Error("the session is not only a token in the tab")
	}
	issuer.mu.Lock()
	issuer.tamper = true
	issuer.mu.Unlock()
	p = openTab(t, address)
	p.clickButton("Sign in with " + host.Host)
	p.awaitText("Not signed in: the sign-in was not started in this tab")
	p.runActions(chromedp.Navigate(address + "/?code=stolen&state=x"))
	p.awaitText("Not signed in: the sign-in was not started in this tab")
	if evalJS[bool](p, "sessionStorage.length > 0 || location.search !== ''") {
		t.Error("a forged answer of the issuer leaves something behind")
	}
}
