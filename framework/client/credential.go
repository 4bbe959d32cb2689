package client

import (
	"fmt"
	"net"
	"net/http"
	"net/url"

	"mesos-gpu/framework/internal/secret"
)

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
