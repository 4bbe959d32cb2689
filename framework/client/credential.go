package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"

	"mesos-gpu/framework/internal/secret"
)

// ClientOption configures a Client.
type ClientOption func(*Client) error

// WithToken adds a token to requests. The client sends it only over TLS or to a loopback
// address.
func WithToken(token string) ClientOption {
	return func(c *Client) error {
		c.token = token
		return nil
	}
}

// WithTrustedCA trusts the certificates in a PEM file instead of the system's.
func WithTrustedCA(file string) ClientOption {
	return func(c *Client) error {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the API's authorities: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("read the API's authorities: %s has no PEM certificate in %d bytes", file, len(pem))
		}
		c.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
		return nil
	}
}

// ReadToken reads a token from a file. It returns a warning if other users can read the
// file.
func ReadToken(file string) (token, warning string, err error) {
	if token, warning, err = secret.ReadFile(file); err != nil {
		return "", "", fmt.Errorf("read the token: %w", err)
	}
	if token == "" {
		return "", "", fmt.Errorf("read the token: %s is empty", file)
	}
	return token, warning, nil
}

// IsConfidential reports whether other machines cannot read requests to the address: it
// uses TLS or is a loopback address.
func IsConfidential(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// addToken adds the token to a request.
func (c *Client) addToken(r *http.Request) error {
	if c.token == "" {
		return nil
	}
	if !IsConfidential(r.URL) {
		return fmt.Errorf("ask the scheduler at %s://%s: the token could be read on the way: use an https address", r.URL.Scheme, r.URL.Host)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	return nil
}
