package gate

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/internal/apihttp"
)

func discardLogger() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// writeFile writes an access file.
func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// openGate opens a gate and returns a function that sends a request through it and returns
// the identified user and the status.
func openGate(t testing.TB, text string) (g *Gate, path string, ask func(token string) (who string, status int)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "access.yaml")
	writeFile(t, path, text)
	g, err := Open(path, nil, discardLogger())
	if err != nil {
		t.Fatal(err)
	}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, apihttp.GrantOf(r.Context()).UserName())
	}), "/open")
	return g, path, func(token string) (string, int) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Body.String(), w.Code
	}
}

func madeToken(t testing.TB, name string) (token, lines string) {
	t.Helper()
	token, hash, err := access.NewToken(name)
	if err != nil {
		t.Fatal(err)
	}
	return token, fmt.Sprintf("tokens: [{name: %s, groups: [g], hash: '%s'}]\n", name, hash)
}

// bcryptTokens returns tokens, and an access file with their bcrypt hashes.
func bcryptTokens() (ci, ops, lines string) {
	return "mgpu.ci.OLDSECRETOLDSECRETOLDSECRE", "mgpu.ops.OPSSECRETOPSSECRETOPSSECRE", `tokens:
  - {name: ci, hash: '$2b$10$abcdefghijklmnopqrstuurjLIbJ6nyW5wV.1TuFV.8Q9pQY.XDPC'}
  - {name: ops, hash: '$2b$10$abcdefghijklmnopqrstvuShSCQdfNsUq0RxyRyLT7IFQNLhlMNKK'}
`
}

// sha256Token returns a token and its entry of an access file.
func sha256Token(t *testing.T, name string) (token, entry string) {
	t.Helper()
	token, hash, err := access.NewToken(name)
	if err != nil {
		t.Fatal(err)
	}
	return token, fmt.Sprintf("  - {name: %s, hash: '%s'}\n", name, hash)
}

// TestSHA256TokenIsNeverLockedOut checks that requests with wrong secrets for a known name do not
// delay the token's user, not even before the first use, from the same address, and while bcrypt
// computes for others.
func TestSHA256TokenIsNeverLockedOut(t *testing.T) {
	_, _, slow := bcryptTokens()
	token, entry := sha256Token(t, "fast")
	g, _, ask := openGate(t, slow+entry)
	g.hashSlots <- struct{}{} // no bcrypt computation ends
	for range 10 * maxWaiting {
		if _, status := ask("mgpu.fast." + strings.Repeat("A", 26)); status != http.StatusUnauthorized {
			t.Fatalf("wrong secret: %d", status)
		}
	}
	if who, status := ask(token); who != "fast" || status != http.StatusOK {
		t.Errorf("got %q, %d", who, status)
	}
}

// TestUnknownNamesTakeAsLongAsKnownOnes checks that unknown names wait for bcrypt in proportion
// to the names with a bcrypt hash, each name always in the same way.
func TestUnknownNamesTakeAsLongAsKnownOnes(t *testing.T) {
	_, _, slow := bcryptTokens()
	_, entry := sha256Token(t, "fast")
	for name, c := range map[string]struct {
		file        string
		least, most int // of 100 names
	}{
		"bcrypt only": {slow, 100, 100}, "sha256 only": {"tokens:\n" + entry, 0, 0}, "both": {slow + entry, 40, 90},
	} {
		g, _, ask := openGate(t, c.file)
		if unknown := g.current.Load().unknownToken; unknown != nil {
			for range maxWaiting {
				unknown.waitSlots <- struct{}{}
			}
		}
		waits := 0
		for i := range 100 {
			token := fmt.Sprintf("mgpu.unknown%d.x", i)
			_, first := ask(token)
			if _, again := ask(token); first != again {
				t.Fatalf("%s: name %d: %d, then %d", name, i, first, again)
			}
			if first == http.StatusServiceUnavailable {
				waits++
			}
		}
		if waits < c.least || waits > c.most {
			t.Errorf("%s: %d of 100 unknown names wait, want %d to %d", name, waits, c.least, c.most)
		}
	}
}

// TestOneAddressDoesNotFillBcryptQueue checks that one address occupies only a part of the queue
// of a name.
func TestOneAddressDoesNotFillBcryptQueue(t *testing.T) {
	_, _, lines := bcryptTokens()
	g, _, _ := openGate(t, lines)
	token := g.current.Load().tokens["ci"]
	attacker, user := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for range maxWaitingPerClient {
		if !token.enterQueue(attacker) {
			t.Fatal("rejected below the limit")
		}
	}
	if token.enterQueue(attacker) || !token.enterQueue(user) {
		t.Error("the limit does not apply to each address")
	}
	token.leaveQueue(attacker)
	if !token.enterQueue(attacker) {
		t.Error("a place is not free again")
	}
}

func TestTokens(t *testing.T) {
	token, _, lines := bcryptTokens()
	g, path, ask := openGate(t, lines)
	for round := range 2 { // first by bcrypt, then by the cached digest
		if who, status := ask(token); who != "ci" || status != http.StatusOK {
			t.Errorf("round %d: %q, %d", round, who, status)
		}
	}
	if who, status := ask(""); who != "" || status != http.StatusOK {
		t.Errorf("without a token: %q, %d", who, status)
	}
	for _, bad := range []string{token + "x", token[:len(token)-1], "mgpu.ci.x", strings.Replace(token, "ci", "cj", 1), "mgpu.ci.", "eyJ.e.s", "x"} {
		if text, status := ask(bad); status != http.StatusUnauthorized || strings.Contains(text, bad) && len(bad) > 7 {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	if g.current.Load().tokens["ci"].proven.Load() == nil {
		t.Error("a verified token is forgotten when the same file is reloaded")
	}
	writeFile(t, path, "tokens: [")
	if err := g.Reload(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a broken file: %v", err)
	}
	if who, _ := ask(token); who != "ci" {
		t.Error("a broken file has closed the gate")
	}
	other, lines := madeToken(t, "ci")
	writeFile(t, path, lines)
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, status := ask(token); status != http.StatusUnauthorized {
		t.Errorf("a token that was taken back: %d", status)
	}
	if who, _ := ask(other); who != "ci" {
		t.Error("the new token is rejected")
	}
}

// TestTokensOfOneNameDoNotBlockOthers checks that requests beyond maxWaiting for one name are
// rejected, while tokens of other names are verified. An unknown name takes as long as a
// known one.
func TestTokensOfOneNameDoNotBlockOthers(t *testing.T) {
	ci, ops, lines := bcryptTokens()
	g, _, ask := openGate(t, lines)
	known := g.current.Load()
	fill := func(queue chan struct{}) {
		for range cap(queue) {
			queue <- struct{}{}
		}
	}
	fill(known.tokens["ci"].waitSlots)
	known.tokens["ci"].hashTurn <- struct{}{}
	for _, token := range []string{ci, "mgpu.ci.x"} {
		if text, status := ask(token); status != http.StatusServiceUnavailable || !strings.Contains(text, "ask again") {
			t.Errorf("one more of ci: %d %s", status, text)
		}
	}
	if who, status := ask(ops); who != "ops" || status != http.StatusOK {
		t.Errorf("ops, whom ci's do not concern: %q, %d", who, status)
	}
	_, secret, _ := strings.Cut(strings.TrimPrefix(ops, "mgpu."), ".")
	if _, status := ask("mgpu.unknown." + secret); status != http.StatusUnauthorized {
		t.Errorf("unknown name: status %d", status)
	}
	fill(known.unknownToken.waitSlots)
	if _, status := ask("mgpu.unknown.x"); status != http.StatusServiceUnavailable {
		t.Errorf("unknown name with too many waiting requests: status %d", status)
	}
	if who, status := ask(ops); who != "ops" || status != http.StatusOK {
		t.Errorf("ops, after its first use: %q, %d", who, status)
	}
}

// TestOpenPathsIgnoreTokens checks that open paths are served with any token, without a user.
func TestOpenPathsIgnoreTokens(t *testing.T) {
	token, lines := madeToken(t, "ci")
	path := filepath.Join(t.TempDir(), "access.yaml")
	writeFile(t, path, lines)
	g, err := Open(path, nil, discardLogger())
	if err != nil {
		t.Fatal(err)
	}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if apihttp.GrantOf(r.Context()).IsKnown() {
			t.Error("the request has a user")
		}
	}), "/healthz")
	for _, header := range []string{"", "Bearer x", "Basic x", "Bearer " + token} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%.12s: %d", header, w.Code)
		}
	}
}

func TestRejectionNamesScheme(t *testing.T) {
	_, lines := madeToken(t, "ci")
	path := filepath.Join(t.TempDir(), "access.yaml")
	writeFile(t, path, lines)
	g, err := Open(path, nil, discardLogger())
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
	r.Header.Set("Authorization", "Basic x")
	w := httptest.NewRecorder()
	g.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || !strings.HasPrefix(got, "Bearer ") ||
		!strings.Contains(w.Body.String(), "send Bearer and a token") {
		t.Errorf("%d %s %s", w.Code, got, w.Body)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), nil, discardLogger()); err == nil {
		t.Error("opened a file that is not there")
	}
}

// BenchmarkKnownToken measures the cost of a token after its first use.
func BenchmarkKnownToken(b *testing.B) {
	token, lines := madeToken(b, "ci")
	_, _, ask := openGate(b, lines)
	ask(token)
	for b.Loop() {
		if who, _ := ask(token); who != "ci" {
			b.Fatal("the token is rejected")
		}
	}
}
