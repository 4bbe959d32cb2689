package access

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	text, hash, err := NewToken("ci")
	if err != nil {
		t.Fatal(err)
	}
	name, secret, ok := SplitToken(text)
	token := TokenEntry{Name: "ci", Hash: hash}
	if !ok || name != "ci" || len(secret) < 20 || !token.MatchesSecret(secret) || token.MatchesSecret(secret+"x") || token.MatchesSecret("") {
		t.Errorf("%s is split into %q, %q, %t", text, name, secret, ok)
	}
	if err := checkHash(hash); err != nil {
		t.Error(err)
	}
	if again, _, err := NewToken("ci"); err != nil || again == text {
		t.Errorf("made again: %v", err)
	}
	if _, err := ParsePolicy([]byte("tokens: [{name: ci, hash: '" + hash + "'}]")); err != nil {
		t.Error(err)
	}
	if token.HasSlowHash() || !(&TokenEntry{Hash: "$2a$10$x"}).HasSlowHash() {
		t.Error("a new token's check is slow, or that of bcrypt is not")
	}
	sum := sha256.Sum256([]byte("password"))
	if chosen := (TokenEntry{Hash: "sha256:" + hex.EncodeToString(sum[:])}); chosen.MatchesSecret("password") {
		t.Error("a secret that a person has chosen matches a SHA-256 hash")
	}
	for _, bad := range []string{"sha256:", hash[:len(hash)-1], hash + "0", strings.ToUpper(hash)} {
		if checkHash(bad) == nil {
			t.Errorf("%q is a hash", bad)
		}
	}
	for _, bad := range []string{"", "a.b", "a b", "ü", strings.Repeat("x", 64), "oidc:x"} {
		if _, _, err := NewToken(bad); err == nil {
			t.Errorf("%q is a name", bad)
		}
	}
}

func TestSplitToken(t *testing.T) {
	for text, want := range map[string][2]string{
		"mgpu.ci.s": {"ci", "s"}, "mgpu.a-b_C.s.t": {"a-b_C", "s.t"},
		"": {}, "ci.s": {}, "mgpu.ci": {}, "mgpu.ci.": {}, "mgpu..s": {}, "mgpu.a b.s": {}, "eyJ.e.s": {},
		"mgpu.ci." + strings.Repeat("x", 73): {},
	} {
		name, secret, ok := SplitToken(text)
		if ok != (want != [2]string{}) || ok && [2]string{name, secret} != want {
			t.Errorf("%q: %q, %q, %t", text, name, secret, ok)
		}
	}
}

func TestBearer(t *testing.T) {
	for _, c := range []struct {
		values     []string
		want, fail string
	}{
		{nil, "", ""},
		{[]string{"Bearer abc.d-e_f~g+h/i="}, "abc.d-e_f~g+h/i=", ""},
		{[]string{"bearer   x"}, "x", ""},
		{[]string{""}, "", "another kind"},
		{[]string{"Basic eDp5"}, "", "another kind"},
		{[]string{"Bearer"}, "", "no token after"},
		{[]string{"Bearer "}, "", "no token after"},
		{[]string{"Bearer a b"}, "", "characters that no token has"},
		{[]string{"Bearer a\x00"}, "", "characters that no token has"},
		{[]string{"Bearer é"}, "", "characters that no token has"},
		{[]string{"Bearer a", "Bearer b"}, "", "2 Authorization headers"},
		{[]string{"Bearer " + strings.Repeat("x", maxTokenSize+1)}, "", "more than"},
	} {
		got, err := ParseBearer(c.values)
		if got != c.want || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%.30q: %q, %v", c.values, got, err)
		}
	}
}

// FuzzBearer checks that accepted tokens are well-formed and errors do not contain the input.
func FuzzBearer(f *testing.F) {
	f.Add("Bearer mgpu.ci.SECRETSECRET")
	f.Add("Basic QmVhcmVyIHg=")
	f.Fuzz(func(t *testing.T, header string) {
		token, err := ParseBearer([]string{header})
		if err != nil {
			if _, sent, _ := strings.Cut(header, " "); token != "" || len(sent) > 12 && strings.Contains(err.Error(), sent) {
				t.Errorf("%q: %q, %v", header, token, err)
			}
			return
		}
		if token == "" || len(token) > maxTokenSize || strings.ContainsFunc(token, isNotTokenRune) || !strings.HasSuffix(header, token) {
			t.Errorf("%q: %q", header, token)
		}
		if name, secret, ok := SplitToken(token); ok && tokenPrefix+name+"."+secret != token {
			t.Errorf("%q is taken apart into %q and %q", token, name, secret)
		}
	})
}
