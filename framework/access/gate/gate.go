// Package gate finds out who makes a request, by the tokens of an access file
// or an OIDC issuer's, and binds the request by what the file lets them do. It
// refuses only who lies; what somebody may not do, package api refuses.
package gate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
)

// tries bounds how many unknown tokens are hashed at the same time: each takes
// 50 ms of a core, which the scheduler needs.
const tries = 1

// Gate knows an access file as it was read last.
type Gate struct {
	path  string
	log   logrus.FieldLogger
	now   atomic.Pointer[known]
	tries chan struct{}
}

// known is what one reading of the file has brought.
type known struct {
	policy *access.Policy
	tokens map[string]*token
	oidc   *issuer // nil for none
}

// token remembers the SHA-256 of its secret once bcrypt has said yes: that is
// as good for 128 random bits, and takes a microsecond.
type token struct {
	access.Token
	proven atomic.Pointer[[sha256.Size]byte]
}

// Open reads the file. An issuer is asked when its first token comes.
func Open(path string, log logrus.FieldLogger) (*Gate, error) {
	g := &Gate{path: path, log: log, tries: make(chan struct{}, tries)}
	return g, g.Reload()
}

// Reload reads the file again. With a mistake in it the old one holds.
func (g *Gate) Reload() error {
	data, err := read(g.path)
	if err != nil {
		return fmt.Errorf("read access file: %w", err)
	}
	policy, err := access.Parse(data)
	if err != nil {
		return fmt.Errorf("access file %s: %w", g.path, err)
	}
	k := &known{policy: policy, tokens: map[string]*token{}}
	before := g.now.Load()
	for _, t := range policy.Tokens {
		k.tokens[t.Name] = &token{Token: t}
		if before == nil {
			continue
		}
		if old := before.tokens[t.Name]; old != nil && old.Hash == t.Hash {
			k.tokens[t.Name].proven.Store(old.proven.Load())
		}
	}
	if policy.OIDC != nil {
		if k.oidc, err = newIssuer(policy.OIDC); err != nil {
			return fmt.Errorf("access file %s: %w", g.path, err)
		}
	}
	g.now.Store(k)
	return nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, access.MaxFile+1))
}

// Jobs is what the file says jobs may have.
func (g *Gate) Jobs() []sched.AllowedIn { return g.now.Load().policy.Jobs }

// Wrap binds requests to h. The open paths are answered whatever token comes.
func (g *Gate) Wrap(h http.Handler, open ...string) http.Handler {
	free := map[string]bool{}
	for _, path := range open {
		free[path] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k := g.now.Load()
		var who access.Identity
		if !free[r.URL.Path] {
			var err error
			if who, err = g.identify(r, k); err != nil {
				api.Fail(w, r, err, g.log)
				return
			}
		}
		h.ServeHTTP(w, r.WithContext(api.WithGrant(r.Context(), k.policy.For(who))))
	})
}

// identify finds out who asks; nobody is who brings no token.
func (g *Gate) identify(r *http.Request, k *known) (who access.Identity, err error) {
	text, err := access.Bearer(r.Header.Values("Authorization"))
	if err != nil {
		return who, api.Problemf(http.StatusUnauthorized, "%v", err)
	}
	name, secret, ours := access.SplitToken(text)
	switch {
	case text == "":
		return who, nil
	case ours:
		t := k.tokens[name]
		if t == nil {
			return who, wrong()
		}
		return t.identify(r.Context(), secret, g.tries)
	case k.oidc != nil:
		return k.oidc.identify(r.Context(), text)
	}
	return who, wrong()
}

// wrong says the same of a name that nobody has and of a wrong secret.
func wrong() error {
	return api.Problemf(http.StatusUnauthorized, "the token is none that the scheduler knows")
}

func (t *token) identify(ctx context.Context, secret string, tries chan struct{}) (who access.Identity, err error) {
	sum := sha256.Sum256([]byte(secret))
	if proven := t.proven.Load(); proven == nil || subtle.ConstantTimeCompare(proven[:], sum[:]) != 1 {
		select {
		case tries <- struct{}{}:
		case <-ctx.Done():
			return who, api.NotYet("the request ended before its token was looked at: %v", context.Cause(ctx))
		}
		right := t.Is(secret)
		<-tries
		if !right {
			return who, wrong()
		}
		t.proven.Store(&sum)
	}
	return access.Identity{Name: t.Name, Groups: t.Groups}, nil
}
