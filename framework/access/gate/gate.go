// Package gate identifies the user of a request, by the tokens of an access file or
// of an OIDC issuer, and attaches the user's permissions to the request. It rejects
// only invalid tokens; package api rejects what a user may not do.
package gate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/sched/admission"
)

const (
	// maxHashing limits how many tokens are hashed concurrently. Each takes 50 ms of a
	// core, which the scheduler needs.
	maxHashing = 1
	// maxWaiting limits how many requests with tokens of the same name wait for
	// hashing, and maxWaitingPerClient how many of them are of the same address. A
	// client that knows only a name must not block the token's user for long.
	maxWaiting, maxWaitingPerClient = 256, 8
)

// Gate identifies users by the latest version of the access file.
type Gate struct {
	// path is the access file. Open reads it, and Reload reads it again. It may be empty if
	// unixUsers is set.
	path string
	// unixUsers is nil if the API has no unix socket.
	unixUsers *UnixUsers
	// log reports errors that are not the requester's.
	log logrus.FieldLogger
	// current is the version of the file that is in effect. Requests read it without a lock.
	current atomic.Pointer[loadedPolicy]
	// hashSlots has a slot for each bcrypt computation that may run at a time, so that wrong tokens cannot take all
	// CPUs.
	hashSlots chan struct{}
	// seed makes it unpredictable which unknown names are checked as slowly as bcrypt.
	seed maphash.Seed
}

// loadedPolicy is the result of reading the file once. A reload replaces it.
type loadedPolicy struct {
	// policy has the permissions of users and groups.
	policy *access.AccessPolicy
	// tokens are the verifiers of the file's tokens, by name. A reload keeps what they have proven.
	tokens map[string]*tokenVerifier
	// unknownToken has a bcrypt hash of the file and always fails; nil if the file has no such hash.
	unknownToken *tokenVerifier
	// slowTokens is the number of tokens with a bcrypt hash.
	slowTokens int
	issuer     *oidcIssuer // nil if none is configured
}

// tokenVerifier verifies the secret of a token. It compares SHA-256 digests, which takes a
// microsecond and is as secure as bcrypt for a secret of 128 random bits. A token with a bcrypt
// hash has no digest until bcrypt has accepted the secret.
type tokenVerifier struct {
	access.TokenEntry
	// proven is the SHA-256 digest of the secret that bcrypt has accepted; nil before the first success.
	proven    atomic.Pointer[[sha256.Size]byte]
	waitSlots chan struct{} // one for each request that waits for hashing or is being hashed
	hashTurn  chan struct{} // held by the one request of this token that competes for a hash slot

	// mu protects waiting.
	mu      sync.Mutex
	waiting map[netip.Addr]int // requests that wait for hashing, by the client's address
}

func newTokenVerifier(t access.TokenEntry) *tokenVerifier {
	return &tokenVerifier{TokenEntry: t, waitSlots: make(chan struct{}, maxWaiting), hashTurn: make(chan struct{}, 1), waiting: map[netip.Addr]int{}}
}

// UnixUsers configures the users whom a unix socket identifies.
type UnixUsers struct {
	// OperatorsGroup is the group of the machine that has all permissions, as root has
	// them; "" for none.
	OperatorsGroup string
	// Host limits the host resources that jobs may use without an access file.
	Host admission.HostPermissions
}

// Open reads the file. It contacts an issuer only when the first token of it arrives.
// unixUsers is nil if the API has no unix socket; otherwise path may be empty.
func Open(path string, unixUsers *UnixUsers, log logrus.FieldLogger) (*Gate, error) {
	g := &Gate{path: path, unixUsers: unixUsers, log: log, hashSlots: make(chan struct{}, maxHashing), seed: maphash.MakeSeed()}
	return g, g.Reload()
}

// Reload reads the file again. If that fails, the old policy stays in force.
func (g *Gate) Reload() error {
	_, take, err := g.PrepareReload()
	if err != nil {
		return err
	}
	take()
	return nil
}

// PrepareReload reads the file again without applying it. It returns the job
// permissions of the new file, and take, which makes the new file effective.
func (g *Gate) PrepareReload() (jobs []admission.RolePermissions, take func(), err error) {
	policy, err := g.loadPolicy()
	if err != nil {
		return nil, nil, err
	}
	k := &loadedPolicy{policy: policy, tokens: map[string]*tokenVerifier{}}
	before := g.current.Load()
	for _, t := range policy.Tokens {
		k.tokens[t.Name] = newTokenVerifier(t)
		if t.HasSlowHash() {
			k.slowTokens++
			k.unknownToken = newTokenVerifier(access.TokenEntry{Hash: t.Hash})
		}
		if before == nil {
			continue
		}
		if old := before.tokens[t.Name]; old != nil && old.Hash == t.Hash {
			k.tokens[t.Name].proven.Store(old.proven.Load())
		}
	}
	if policy.OIDC != nil {
		if k.issuer, err = newOIDCIssuer(policy.OIDC); err != nil {
			return nil, nil, fmt.Errorf("access file %s: %w", g.path, err)
		}
	}
	return policy.JobLimits, func() { g.current.Store(k) }, nil
}

// loadPolicy returns the policy of the access file, or the default one of unix users.
func (g *Gate) loadPolicy() (policy *access.AccessPolicy, err error) {
	if g.path == "" {
		policy = access.UnixUsersPolicy(g.unixUsers.Host)
	} else {
		data, err := readPolicyFile(g.path)
		if err != nil {
			return nil, fmt.Errorf("read access file: %w", err)
		}
		if policy, err = access.ParsePolicy(data); err != nil {
			return nil, fmt.Errorf("access file %s: %w", g.path, err)
		}
	}
	if g.unixUsers != nil {
		policy.AddOperators(g.unixUsers.OperatorsGroup)
	}
	return policy, nil
}

func readPolicyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, access.MaxPolicySize+1))
}

// JobLimits returns what jobs may use, by role.
func (g *Gate) JobLimits() []admission.RolePermissions { return g.current.Load().policy.JobLimits }

// Wrap authenticates requests to h and attaches their permissions. It ignores the tokens
// of requests to the open paths.
func (g *Gate) Wrap(h http.Handler, open ...string) http.Handler {
	free := map[string]bool{}
	for _, path := range open {
		free[path] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k := g.current.Load()
		var who access.Identity
		if !free[r.URL.Path] {
			var err error
			if who, err = g.identifyRequest(r, k); err != nil {
				apihttp.WriteProblem(w, r, err, g.log)
				return
			}
		}
		h.ServeHTTP(w, r.WithContext(apihttp.WithGrant(r.Context(), k.policy.GrantFor(who))))
	})
}

// identifyRequest returns the user of a request by its token or, without one, the user of
// its connection. It returns the zero Identity if neither is known.
func (g *Gate) identifyRequest(r *http.Request, k *loadedPolicy) (who access.Identity, err error) {
	text, err := access.ParseBearer(r.Header.Values("Authorization"))
	if err != nil {
		return who, api.NewProblemf(http.StatusUnauthorized, "%v", err)
	}
	name, secret, ours := access.SplitToken(text)
	switch {
	case text == "":
		return apihttp.PeerOf(r.Context()), nil
	case ours:
		t := k.tokens[name]
		if t == nil && k.slowTokens > 0 && maphash.String(g.seed, name)%uint64(len(k.tokens)) < uint64(k.slowTokens) {
			t = k.unknownToken
		}
		if t == nil {
			t = unknownFastToken
		}
		return t.verifySecret(r, secret, g.hashSlots)
	case k.issuer != nil:
		return k.issuer.identifyToken(r.Context(), text)
	}
	return who, invalidToken()
}

// unknownFastToken fails as fast as a token with a SHA-256 hash. Unknown names are divided
// between it and loadedPolicy.unknownToken as the known ones are between their kinds of hashes,
// so that the time of an answer does not show which names are known.
var unknownFastToken = newTokenVerifier(access.TokenEntry{Hash: "sha256:" + strings.Repeat("0", 2*sha256.Size)})

// invalidToken returns the same error for an unknown name and for a wrong secret.
func invalidToken() error {
	return api.NewProblemf(http.StatusUnauthorized, "the token is unknown to the scheduler")
}

func (t *tokenVerifier) verifySecret(r *http.Request, secret string, tries chan struct{}) (who access.Identity, err error) {
	sum := sha256.Sum256([]byte(secret))
	switch {
	case !t.HasSlowHash():
		if right := t.MatchesSecret(secret); !right || t.Name == "" {
			return who, invalidToken()
		}
	case !t.isProven(&sum):
		if err := t.hashSecret(r, secret, &sum, tries); err != nil {
			return who, err
		}
	}
	return t.Identity(), nil
}

func (t *tokenVerifier) isProven(sum *[sha256.Size]byte) bool {
	proven := t.proven.Load()
	return proven != nil && subtle.ConstantTimeCompare(proven[:], sum[:]) == 1
}

// hashSecret verifies the secret by bcrypt when a hash slot is free. At most one request
// of each token competes for a slot. A token therefore waits for at most one request of
// each other token. It returns a Problem if the secret is wrong, too many requests wait,
// or the request ends. A client that sends wrong secrets delays the token's user at other addresses
// by maxWaitingPerClient computations at most.
func (t *tokenVerifier) hashSecret(r *http.Request, secret string, sum *[sha256.Size]byte, tries chan struct{}) error {
	ctx, client := r.Context(), apihttp.ClientNetwork(r.RemoteAddr)
	if !t.enterQueue(client) {
		return api.NewUnavailable("%d requests from this address already wait for the check of their tokens: ask again", maxWaitingPerClient)
	}
	defer t.leaveQueue(client)
	select {
	case t.waitSlots <- struct{}{}:
		defer func() { <-t.waitSlots }()
	default:
		return api.NewUnavailable("%d requests already wait for the check of their tokens: ask again", maxWaiting)
	}
	for _, turn := range []chan struct{}{t.hashTurn, tries} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return api.NewUnavailable("the request ended before its token was looked at: %v", context.Cause(ctx))
		}
	}
	if t.isProven(sum) { // another request has verified the secret meanwhile
		return nil
	}
	if right := t.MatchesSecret(secret); !right || t.Name == "" {
		return invalidToken()
	}
	t.proven.Store(sum)
	return nil
}

// enterQueue counts a request of a client that waits for hashing. It returns false if too many
// already wait.
func (t *tokenVerifier) enterQueue(client netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[client] >= maxWaitingPerClient {
		return false
	}
	t.waiting[client]++
	return true
}

func (t *tokenVerifier) leaveQueue(client netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting[client]--; t.waiting[client] == 0 {
		delete(t.waiting, client)
	}
}
