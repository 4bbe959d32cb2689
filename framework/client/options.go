package client

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"
)

// Option configures a Client.
type Option func(*clientOptions) error

// clientOptions contains the settings of New's options.
type clientOptions struct {
	token    string
	tls      *tls.Config
	timeouts Timeouts
}

// WithToken adds a token to requests. The client sends it only over TLS or to a loopback
// address.
func WithToken(token string) Option {
	return func(o *clientOptions) error {
		o.token = token
		return nil
	}
}

// WithTrustedCA trusts the certificates in a PEM file instead of the system's.
func WithTrustedCA(file string) Option {
	return func(o *clientOptions) error {
		pem, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the API's authorities: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("read the API's authorities: %s has no PEM certificate in %d bytes", file, len(pem))
		}
		if o.tls == nil {
			o.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		o.tls.RootCAs = pool
		return nil
	}
}

// WithTLSConfig sets the TLS configuration, for example for a client certificate. It
// replaces the effect of an earlier WithTrustedCA; a later one replaces only its RootCAs.
func WithTLSConfig(config *tls.Config) Option {
	return func(o *clientOptions) error {
		o.tls = config.Clone()
		return nil
	}
}

// WithTimeouts limits how long requests take. The context of a request limits it further.
func WithTimeouts(t Timeouts) Option {
	return func(o *clientOptions) error {
		o.timeouts = t
		return nil
	}
}

// Timeouts are the limits of a Client. A field that is 0 has its default.
type Timeouts struct {
	// Connect limits the opening of a connection; the default is 5 s.
	Connect time.Duration
	// Response limits the wait for the start of a response; the default is 1 min. The
	// body, such as a log that is followed, may take longer.
	Response time.Duration
	// Leader is how long a request is retried while standbys report that there is no
	// leader; the default is 30 s.
	Leader time.Duration
	// Follow is how long the methods that follow a job are retried without a response:
	// FollowEvents, WaitForJob and ReadTaskOutput. The default is 2 min.
	Follow time.Duration
}

func (t *Timeouts) setDefaults() {
	t.Connect = cmp.Or(t.Connect, 5*time.Second)
	t.Response = cmp.Or(t.Response, time.Minute)
	t.Leader = cmp.Or(t.Leader, 30*time.Second)
	t.Follow = cmp.Or(t.Follow, 2*time.Minute)
}
