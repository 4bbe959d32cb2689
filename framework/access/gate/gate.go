// Package gate finds out who makes a request, by the tokens of an access file
// or an OIDC issuer's, and binds the request by what the file lets them do. It
// refuses only who lies; what somebody may not do, package api refuses.
package gate

import (
	"cmp"
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

const (
	// tries bounds how many tokens are hashed at the same time: each takes 50 ms
	// of a core, which the scheduler needs.
	tries = 1
	// waiters bounds how many requests with tokens of one name wait for that:
	// those who know a name are not to hold up who has the token for long.
	waiters = 32
)

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
	nobody *token  // takes as long as one of tokens, and is never right
	oidc   *issuer // nil for none
}

// token remembers the SHA-256 of its secret once bcrypt has said yes: that is
// as good for 128 random bits, and takes a microsecond.
type token struct {
	access.Token
	proven atomic.Pointer[[sha256.Size]byte]
	queue  chan struct{} // who waits, or is looked at
	turn   chan struct{} // who is looked at, or is next of all
}

func newToken(t access.Token) *token {
	return &token{Token: t, queue: make(chan struct{}, waiters), turn: make(chan struct{}, 1)}
}

// Open reads the file. An issuer is asked when its first token comes.
func Open(path string, log logrus.FieldLogger) (*Gate, error) {
	g := &Gate{path: path, log: log, tries: make(chan struct{}, tries)}
	return g, g.Reload()
}

// Reload reads the file again. With a mistake in it the old one holds.
func (g *Gate) Reload() error {
	_, take, err := g.Read()
	if err != nil {
		return err
	}
	take()
	return nil
}

// Read reads the file again: what it says jobs may have, and take, which has it
// hold.
func (g *Gate) Read() (jobs []sched.AllowedIn, take func(), err error) {
	data, err := read(g.path)
	if err != nil {
		return nil, nil, fmt.Errorf("read access file: %w", err)
	}
	policy, err := access.Parse(data)
	if err != nil {
		return nil, nil, fmt.Errorf("access file %s: %w", g.path, err)
	}
	k := &known{policy: policy, tokens: map[string]*token{}}
	before := g.now.Load()
	for _, t := range policy.Tokens {
		k.tokens[t.Name], k.nobody = newToken(t), newToken(access.Token{Hash: t.Hash})
		if before == nil {
			continue
		}
		if old := before.tokens[t.Name]; old != nil && old.Hash == t.Hash {
			k.tokens[t.Name].proven.Store(old.proven.Load())
		}
	}
	if policy.OIDC != nil {
		if k.oidc, err = newIssuer(policy.OIDC); err != nil {
			return nil, nil, fmt.Errorf("access file %s: %w", g.path, err)
		}
	}
	return policy.Jobs, func() { g.now.Store(k) }, nil
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
		t := cmp.Or(k.tokens[name], k.nobody)
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
	if !t.knows(&sum) {
		if err := t.prove(ctx, secret, &sum, tries); err != nil {
			return who, err
		}
	}
	return access.Identity{Name: t.Name, Groups: t.Groups}, nil
}

func (t *token) knows(sum *[sha256.Size]byte) bool {
	proven := t.proven.Load()
	return proven != nil && subtle.ConstantTimeCompare(proven[:], sum[:]) == 1
}

// prove hashes the secret when its turn comes. Of those with the same name one
// at a time asks for a turn among all, so that tokens of another name wait for
// one of them and not for all.
func (t *token) prove(ctx context.Context, secret string, sum *[sha256.Size]byte, tries chan struct{}) error {
	select {
	case t.queue <- struct{}{}:
		defer func() { <-t.queue }()
	default:
		return api.NotYet("%d requests wait already for their tokens to be looked at: ask again", waiters)
	}
	for _, turn := range []chan struct{}{t.turn, tries} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return api.NotYet("the request ended before its token was looked at: %v", context.Cause(ctx))
		}
	}
	if t.knows(sum) { // since it waited
		return nil
	}
	if right := t.Is(secret); !right || t.Name == "" {
		return wrong()
	}
	t.proven.Store(sum)
	return nil
}
