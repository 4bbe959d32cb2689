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
	"golang.org/x/oauth2"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

const (
	// issuerTimeout limits each request to the issuer.
	issuerTimeout = 5 * time.Second
	// issuerRetryInterval is the least interval between requests for the issuer's keys.
	// Without it, each token with an unknown key would cause a request.
	issuerRetryInterval = 5 * time.Second
	// maxIssuerAnswer limits a response of the issuer, in bytes.
	maxIssuerAnswer = 1 << 20
)

// errRetryTooSoon rejects a request within issuerRetryInterval of the last one.
var errRetryTooSoon = errors.New("its keys were read a moment ago")

// signatureAlgorithms returns the accepted algorithms. "none" proves nothing, and HMAC
// would require a secret shared with the issuer.
func signatureAlgorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}
}

// oidcIssuer verifies the tokens of an OIDC issuer. It discovers the issuer's keys when
// the first token arrives, so that an unreachable issuer affects only its own users.
type oidcIssuer struct {
	access.OIDCConfig
	// codeClient exchanges authorization codes. It is not limited to one request per interval.
	codeClient *http.Client
	// client reads the issuer's configuration and keys.
	client    *http.Client
	transport *limitedTransport // the transport of client
	// clock gives the time of the expiry check; tests replace it.
	clock func() time.Time

	// mu protects the fields below. It is held while the keys are discovered.
	mu sync.Mutex
	// endpoint has the issuer's URLs for sign-ins; empty until the discovery has succeeded.
	endpoint oauth2.Endpoint
	// verifier verifies tokens with the issuer's keys; nil until the discovery has succeeded.
	verifier *oidc.IDTokenVerifier
	failedAt time.Time // time of the last discovery
	// discoveryError is why the last discovery failed. Requests get it until the next attempt.
	discoveryError error
}

func newOIDCIssuer(o *access.OIDCConfig) (*oidcIssuer, error) {
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
	plain := &http.Client{Transport: transport, Timeout: issuerTimeout, CheckRedirect: rejectRedirect}
	asks := &limitedTransport{next: transport, clock: time.Now, requireTLS: strings.HasPrefix(o.Issuer, "https:")}
	return &oidcIssuer{OIDCConfig: *o, client: &http.Client{Transport: asks, Timeout: issuerTimeout}, codeClient: plain, transport: asks, clock: time.Now}, nil
}

// identifyToken verifies a token and returns the user and groups in its claims.
func (i *oidcIssuer) identifyToken(ctx context.Context, text string) (who access.Identity, err error) {
	verifier, err := i.loadVerifier(ctx)
	if err != nil {
		return who, api.NewUnavailable("read the keys of issuer %s: %v", i.Issuer, err)
	}
	verified, err := verifier.Verify(ctx, text)
	if err != nil && i.transport.isFailing() {
		return who, api.NewUnavailable("read the keys of issuer %s: %v", i.Issuer, err)
	}
	if err != nil {
		return who, api.NewProblemf(http.StatusUnauthorized, "the token is not a valid token of the issuer: %v", err)
	}
	var claims map[string]any
	if err := verified.Claims(&claims); err != nil {
		return who, api.NewProblemf(http.StatusUnauthorized, "the token's claims cannot be read: %v", err)
	}
	name, _ := claims[i.NameClaim].(string)
	if name == "" {
		return who, api.NewProblemf(http.StatusUnauthorized, "the token has no claim %q with a name", i.NameClaim)
	}
	if checked := claims["email_verified"]; i.NameClaim == "email" && checked != true && checked != "true" {
		return who, api.NewProblemf(http.StatusUnauthorized, "the issuer has not verified the token's email")
	}
	who = access.Identity{Name: access.OIDCPrefix + name, Groups: parseGroups(claims[i.GroupsClaim])}
	if i.UnixUserClaim == "" {
		return who, nil
	}
	account, _ := claims[i.UnixUserClaim].(string)
	if err := access.CheckUnixUser(account); err != nil {
		return access.Identity{}, api.NewProblemf(http.StatusUnauthorized, "the token's claim %q: %v", i.UnixUserClaim, err)
	}
	who.Name = job.UnixUserPrefix + account
	return who, nil
}

// parseGroups parses a claim that is a list or a single string, and adds OIDCPrefix.
func parseGroups(claim any) (groups []string) {
	list, ok := claim.([]any)
	if !ok {
		list = []any{claim}
	}
	for _, one := range list {
		if name, ok := one.(string); ok && name != "" {
			groups = append(groups, access.OIDCPrefix+name)
		}
	}
	return groups
}

// loadVerifier discovers the issuer's keys and caches the verifier. After a failure it
// returns the same error for issuerRetryInterval.
func (i *oidcIssuer) loadVerifier(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.verifier != nil:
		return i.verifier, nil
	case i.discoveryError != nil && i.clock().Sub(i.failedAt) < issuerRetryInterval:
		return nil, i.discoveryError
	}
	// The verifier requests the keys later, possibly after this request has ended.
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), i.client)
	provider, err := oidc.NewProvider(ctx, i.Issuer)
	if i.failedAt, i.discoveryError = i.clock(), err; err != nil {
		return nil, err
	}
	i.endpoint = provider.Endpoint()
	i.verifier = provider.VerifierContext(ctx, &oidc.Config{ClientID: i.Audience, SupportedSigningAlgs: signatureAlgorithms()})
	return i.verifier, nil
}

// limitedTransport sends at most one request per URL and issuerRetryInterval, and limits
// the size of responses. For an issuer with an https URL it rejects plain HTTP, because
// an attacker on the network could replace the keys.
type limitedTransport struct {
	// next sends the requests that are permitted.
	next  http.RoundTripper
	clock func() time.Time
	// requireTLS rejects requests by plain HTTP. It is set for an issuer with an https URL.
	requireTLS bool

	mu sync.Mutex
	// lastRequest is when each URL was last requested.
	lastRequest map[string]time.Time
	lastFailed  bool // whether the last request failed
}

func (s *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	at := r.URL.String()
	s.mu.Lock()
	if s.requireTLS && r.URL.Scheme != "https" {
		s.lastFailed = true
		s.mu.Unlock()
		return nil, fmt.Errorf("the issuer has https, and sends to %s: have it name an https address", at)
	}
	soon := s.clock().Sub(s.lastRequest[at]) < issuerRetryInterval
	if !soon {
		if len(s.lastRequest) > 100 || s.lastRequest == nil { // normally there are two URLs
			s.lastRequest = map[string]time.Time{}
		}
		s.lastRequest[at] = s.clock()
	}
	s.mu.Unlock()
	if soon {
		return nil, errRetryTooSoon
	}
	res, err := s.next.RoundTrip(r)
	s.mu.Lock()
	s.lastFailed = err != nil || res.StatusCode >= http.StatusInternalServerError
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	res.Body = limitedBody{io.LimitReader(res.Body, maxIssuerAnswer), res.Body}
	return res, nil
}

// isFailing reports whether the last request to the issuer failed. A token that cannot
// be verified may then be valid.
func (s *limitedTransport) isFailing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastFailed
}

type limitedBody struct {
	io.Reader
	io.Closer
}
