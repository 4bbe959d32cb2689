package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"golang.org/x/oauth2"

	"mesos-gpu/framework/api"
)

// maxCodeLength limits the strings of a code exchange, in bytes.
const maxCodeLength = 4 << 10

// DescribeSignIn returns what a browser needs to sign a user in, or nil if the access file
// does not permit it.
func (g *Gate) DescribeSignIn(ctx context.Context) *api.OIDCSignIn {
	issuer := g.current.Load().issuer
	if issuer == nil || !issuer.SignIn {
		return nil
	}
	v := &api.OIDCSignIn{Issuer: issuer.Issuer, ClientID: issuer.Audience, Scopes: strings.Join(issuer.Scopes, " ")}
	if endpoint, err := issuer.findEndpoint(ctx); err == nil {
		v.AuthorizationEndpoint = endpoint.AuthURL
	}
	return v
}

// ExchangeCode exchanges an authorization code at the issuer for an identity token, and
// verifies it. The code verifier (PKCE) proves that the client requested the code.
func (g *Gate) ExchangeCode(ctx context.Context, code api.CodeExchange) (string, error) {
	issuer := g.current.Load().issuer
	if issuer == nil || !issuer.SignIn {
		return "", api.NewProblemf(http.StatusNotFound, "the access file has no OIDC issuer with sign_in: true")
	}
	if code.Code == "" || code.CodeVerifier == "" || code.RedirectURI == "" || max(len(code.Code), len(code.CodeVerifier), len(code.RedirectURI)) > maxCodeLength {
		return "", api.NewProblemf(http.StatusUnprocessableEntity, "code, code_verifier and redirect_uri are required, each of at most %d bytes", maxCodeLength)
	}
	token, err := issuer.exchangeCode(ctx, code)
	if err != nil {
		return "", err
	}
	if _, err := issuer.identifyToken(ctx, token); err != nil {
		return "", err
	}
	return token, nil
}

// findEndpoint returns the issuer's URLs for sign-ins.
func (i *oidcIssuer) findEndpoint(ctx context.Context) (oauth2.Endpoint, error) {
	if _, err := i.loadVerifier(ctx); err != nil {
		return oauth2.Endpoint{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, at := range []string{i.endpoint.AuthURL, i.endpoint.TokenURL} {
		if at == "" || i.transport.requireTLS && !strings.HasPrefix(at, "https://") {
			return oauth2.Endpoint{}, fmt.Errorf("the issuer's configuration has no usable URL for sign-ins: %q", at)
		}
	}
	return i.endpoint, nil
}

// exchangeCode requests the identity token of a code.
func (i *oidcIssuer) exchangeCode(ctx context.Context, code api.CodeExchange) (string, error) {
	endpoint, err := i.findEndpoint(ctx)
	if err != nil {
		return "", api.NewUnavailable("read the configuration of issuer %s: %v", i.Issuer, err)
	}
	secret, err := i.readClientSecret()
	if err != nil {
		return "", err
	}
	endpoint.AuthStyle = oauth2.AuthStyleInHeader // client_secret_basic, which all issuers support
	if secret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client
	}
	cfg := oauth2.Config{ClientID: i.Audience, ClientSecret: secret, Endpoint: endpoint, RedirectURL: code.RedirectURI}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, i.codeClient)
	token, err := cfg.Exchange(ctx, code.Code, oauth2.VerifierOption(code.CodeVerifier))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError {
		return "", api.NewProblemf(http.StatusUnauthorized, "the issuer rejects the sign-in: %s", cmp.Or(refused.ErrorDescription,
			refused.ErrorCode, refused.Response.Status))
	}
	if err != nil {
		return "", api.NewUnavailable("sign in at issuer %s: %v", i.Issuer, err)
	}
	identity, _ := token.Extra("id_token").(string)
	if identity == "" {
		return "", api.NewProblemf(http.StatusUnauthorized, "the issuer returned no identity token: its client needs the scope openid")
	}
	return identity, nil
}

// readClientSecret reads the file each time, so that a new secret needs no reload.
func (i *oidcIssuer) readClientSecret() (string, error) {
	if i.ClientSecretFile == "" {
		return "", nil
	}
	f, err := os.Open(i.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("read the secret of the OIDC client: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCodeLength))
	return strings.TrimSpace(string(text)), err
}

// rejectRedirect keeps codes and secrets from being sent to another URL.
func rejectRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
