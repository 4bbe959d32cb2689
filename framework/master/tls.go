package master

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSFiles configures encrypted connections to masters and agents. With it,
// agents are called by https whatever an offer says: Mesos writes "http" into
// every offer.
type TLSFiles struct {
	// CAFile has the trusted certificates in PEM; "" means the system's.
	CAFile string
	// CertFile and KeyFile are the client certificate, for masters and agents
	// that require one.
	CertFile, KeyFile string
	// ServerName is the name in the certificates of masters and agents, if it
	// is not the host of the address.
	ServerName string
}

// ClientConfig reads the files. The client certificate is read again for each
// connection, so that it can be renewed at run time.
func (t *TLSFiles) ClientConfig() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read TLS authorities: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read TLS authorities: %s has no PEM certificate in %d bytes", t.CAFile, len(pem))
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("a TLS certificate needs its key and a key its certificate: give both files or neither")
	}
	if t.CertFile == "" {
		return cfg, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read TLS certificate %s with key %s: %w", t.CertFile, t.KeyFile, err)
		}
		return &pair, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return cfg, nil
}
