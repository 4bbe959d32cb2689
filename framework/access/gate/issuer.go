package gate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
)

const (
	// answerWait is how long an issuer may take.
	answerWait = 5 * time.Second
	// askAgain is how often an issuer is asked for its keys: whoever sends
	// tokens of keys that are none must not have it asked for each.
	askAgain = 5 * time.Second
	// maxAnswer bounds what it may say.
	maxAnswer = 1 << 20
)

// errAsked is the answer to who asks again too soon.
var errAsked = errors.New("the issuer was asked a moment ago")

// algorithms are those with which a signature proves something: none is not
// among them, nor is HMAC, whose key would be ours.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}
}

// issuer verifies an OIDC issuer's tokens. It is asked where its keys are when
// they are first needed: that it cannot be reached is nobody's matter but its
// own users'.
type issuer struct {
	access.OIDC
	client *http.Client
	asks   *sparing // by which client asks
	clock  func() time.Time

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	asked    time.Time // when its discovery failed last
	failed   error
}

func newIssuer(o *access.OIDC) (*issuer, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, Proxy: http.ProxyFromEnvironment}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the issuer's authorities: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the issuer's authorities: %s has no PEM certificate in %d bytes", o.CAFile, len(pem))
		}
	}
	asks := &sparing{next: transport, clock: time.Now, secure: strings.HasPrefix(o.Issuer, "https:")}
	return &issuer{OIDC: *o, client: &http.Client{Transport: asks, Timeout: answerWait}, asks: asks, clock: time.Now}, nil
}

// identify verifies a token and reads in it whose it is.
func (i *issuer) identify(ctx context.Context, text string) (who access.Identity, err error) {
	verifier, err := i.verifies(ctx)
	if err != nil {
		return who, api.NotYet("ask the issuer %s for its keys: %v", i.Issuer, err)
	}
	verified, err := verifier.Verify(ctx, text)
	if err != nil && i.asks.failing() {
		return who, api.NotYet("ask the issuer %s for its keys: %v", i.Issuer, err)
	}
	if err != nil {
		return who, api.Problemf(http.StatusUnauthorized, "the token is none of the issuer's that holds here: %v", err)
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return who, api.Problemf(http.StatusUnauthorized, "the token's claims cannot be read: %v", err)
	}
	name, _ := claims[i.Name].(string)
	if name == "" {
		return who, api.Problemf(http.StatusUnauthorized, "the token has no claim %q with a name", i.Name)
	}
	if checked := claims["email_verified"]; i.Name == "email" && checked != true && checked != "true" {
		return who, api.Problemf(http.StatusUnauthorized, "the issuer has not verified the token's email")
	}
	return access.Identity{Name: access.FromOIDC + name, Groups: groupsIn(claims[i.Groups])}, nil
}

// groupsIn reads a list, or one text.
func groupsIn(claim any) (groups []string) {
	list, ok := claim.([]any)
	if !ok {
		list = []any{claim}
	}
	for _, one := range list {
		if name, ok := one.(string); ok && name != "" {
			groups = append(groups, access.FromOIDC+name)
		}
	}
	return groups
}

// verifies finds out where the issuer's keys are, once. While it cannot be
// reached, that it could not a moment ago is the answer.
func (i *issuer) verifies(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.verifier != nil:
		return i.verifier, nil
	case i.failed != nil && i.clock().Sub(i.asked) < askAgain:
		return nil, i.failed
	}
	// Its keys are asked for later, when this request has ended.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), i.client)
	provider, err := oidc.NewProvider(ctx, i.Issuer)
	if i.asked, i.failed = i.clock(), err; err != nil {
		return nil, err
	}
	i.verifier = provider.VerifierContext(ctx, &oidc.Config{ClientID: i.Audience, SupportedSigningAlgs: algorithms()})
	return i.verifier, nil
}

// sparing asks for one thing only every askAgain, and bounds answers. Of an
// issuer with TLS it asks nothing without: whoever is on the way could say
// which keys are its own.
type sparing struct {
	next   http.RoundTripper
	clock  func() time.Time
	secure bool

	mu    sync.Mutex
	asked map[string]time.Time
	lost  bool // the last answer
}

func (s *sparing) RoundTrip(r *http.Request) (*http.Response, error) {
	at := r.URL.String()
	s.mu.Lock()
	if s.secure && r.URL.Scheme != "https" {
		s.lost = true
		s.mu.Unlock()
		return nil, fmt.Errorf("the issuer has https, and sends to %s: have it name an https address", at)
	}
	soon := s.clock().Sub(s.asked[at]) < askAgain
	if !soon {
		if len(s.asked) > 100 || s.asked == nil { // an issuer has two addresses
			s.asked = map[string]time.Time{}
		}
		s.asked[at] = s.clock()
	}
	s.mu.Unlock()
	if soon {
		return nil, errAsked
	}
	res, err := s.next.RoundTrip(r)
	s.mu.Lock()
	s.lost = err != nil || res.StatusCode >= http.StatusInternalServerError
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	res.Body = bounded{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}

// failing reports whether the issuer has not answered when it was last asked: a
// token that seems wrong may then be right.
func (s *sparing) failing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

type bounded struct {
	io.Reader
	io.Closer
}
