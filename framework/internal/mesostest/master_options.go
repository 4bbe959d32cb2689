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

// MasterOption changes how a Master is reached.
type MasterOption func(*FakeMaster)

// ListenIPv6 listens on [::1], and skips the test where there is none.
func ListenIPv6() MasterOption { return func(m *FakeMaster) { m.listen = "[::1]:0" } }

// WithTLS encrypts, with a certificate that CAFile trusts. A mutual one wants a
// certificate of the client's too, whichever.
func WithTLS(mutual bool) MasterOption {
	return func(m *FakeMaster) {
		m.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if mutual {
			m.tls.ClientAuth = tls.RequireAnyClientCert
		}
	}
}

// WithAuth wants HTTP basic authentication for every call, as Mesos's
// --authenticate_http_frameworks and --authenticate_http_readonly do.
func WithAuth(principal, secret string) MasterOption {
	return func(m *FakeMaster) { m.principal, m.secret = principal, secret }
}

// InMemory opens no port: the Master is reached through its Transport alone.
// Tests in a synctest bubble need that.
func InMemory() MasterOption { return func(m *FakeMaster) { m.memory = true } }

// CAFile has the certificate of a Master with WithTLS, as PEM.
func (m *FakeMaster) CAFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.server.Certificate().Raw})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// listenAndServe opens the port.
func (m *FakeMaster) listenAndServe(t testing.TB) {
	if m.listen != "" {
		l, err := net.Listen("tcp", m.listen)
		if err != nil {
			t.Skipf("needs IPv6 on loopback: %v", err)
		}
		_ = m.server.Listener.Close() // nobody has heard of it
		m.server.Listener = l
	}
	if m.tls != nil {
		m.server.TLS = m.tls
		m.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that are right not to trust it
		m.server.StartTLS()
		return
	}
	m.server.Start()
}

// checkAuth checks who calls, and answers 401 in the name of the realm.
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
