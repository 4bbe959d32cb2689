package mesostest

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// MasterOption configures how clients reach a FakeMaster.
type MasterOption func(*FakeMaster)

// ListenIPv6 makes the master listen on [::1]. It skips the test if that is not available.
func ListenIPv6() MasterOption { return func(m *FakeMaster) { m.listen = "[::1]:0" } }

// WithTLS enables TLS with the certificate in CAFile. With mutual, clients must present
// a certificate, which is not verified.
func WithTLS(mutual bool) MasterOption {
	return func(m *FakeMaster) {
		m.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if mutual {
			m.tls.ClientAuth = tls.RequireAnyClientCert
		}
	}
}

// WithAuth requires HTTP basic authentication for every call, as Mesos's
// --authenticate_http_frameworks and --authenticate_http_readonly do.
func WithAuth(principal, secret string) MasterOption {
	return func(m *FakeMaster) { m.principal, m.secret = principal, secret }
}

// InMemory opens no port: clients reach the FakeMaster only through its Transport. Tests
// in a synctest bubble need that.
func InMemory() MasterOption { return func(m *FakeMaster) { m.memory = true } }

// CAFile writes the certificate of a FakeMaster with WithTLS to a PEM file and returns its path.
func (m *FakeMaster) CAFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.server.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// listenAndServe starts the server.
func (m *FakeMaster) listenAndServe(t testing.TB) {
	if m.listen != "" {
		l, err := net.Listen("tcp", m.listen)
		if err != nil {
			t.Skipf("needs IPv6 on loopback: %v", err)
		}
		_ = m.server.Listener.Close() // no client has used it
		m.server.Listener = l
	}
	if m.tls != nil {
		m.server.TLS = m.tls
		m.server.Config.ErrorLog = log.New(io.Discard, "", 0) // some tests expect clients to reject the certificate
		m.server.StartTLS()
		return
	}
	m.server.Start()
}

// checkAuth checks the client's credentials. It answers 401 and returns false if they are wrong.
func (m *FakeMaster) checkAuth(w http.ResponseWriter, r *http.Request) bool {
	if m.principal == "" {
		return true
	}
	principal, secret, ok := r.BasicAuth()
	if ok && principal == m.principal && secret == m.secret {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="mesos-master-scheduler"`)
	w.WriteHeader(http.StatusUnauthorized)
	return false
}
