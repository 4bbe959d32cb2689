package framework

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/access/audit"
	"mesos-gpu/framework/access/gate"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/sched/admission"
)

// APIConfig configures access to a scheduler's API. With the zero value, every
// client that can connect may do everything, over plain HTTP.
type APIConfig struct {
	// AccessFile is the path of the access file, which grants permissions: see package access.
	AccessFile string
	// CertFile and KeyFile are the API's TLS certificate and its key. They are
	// read again when they change. If both are empty the API uses plain HTTP.
	CertFile, KeyFile string
	// CAFile holds the certificate authorities to trust when this scheduler
	// forwards requests to another one; "" selects the system's.
	CAFile string
	// AuditFile receives one line for each change; "" disables the audit log.
	AuditFile string
	// Socket is the path of a unix socket on which the API listens too, "" for none. The
	// kernel identifies its users, whose jobs run as themselves: see access.UnixUsersPolicy.
	// Requests to the other address then need a token.
	Socket string
	// OperatorsGroup is the group of the machine whose members have all permissions on
	// Socket, as root has them.
	OperatorsGroup string
	// Open permits listening on other addresses than loopback without TLS and
	// an access file.
	Open bool
	// NoExec rejects requests to run commands in tasks' containers.
	NoExec bool
	// MaxConnections, MaxStreams, MaxLists and MaxRequests limit what the API serves
	// at a time; 0 selects the default. ClientPercent is the part of each limit that
	// one user may use and, of the connections, one address; 0 selects the default.
	MaxConnections, MaxStreams, MaxLists, MaxRequests int
	ClientPercent                                     int
}

// newHandler returns the handler of the API, which reads the backend for each request.
func (a *APIConfig) newHandler(backend func() apiserver.Backend, users *gate.Gate, log logrus.FieldLogger) http.Handler {
	var options []apiserver.HandlerOption
	if a.NoExec {
		options = append(options, apiserver.WithoutExec())
	}
	if users != nil {
		options = append(options, apiserver.WithSignIn(users))
	}
	return apiserver.NewHandler(backend, log, options...)
}

// URLFor returns the URL of an API at address, which is HOST:PORT.
func (a *APIConfig) URLFor(address string) string {
	if a.CertFile != "" {
		return "https://" + address
	}
	return "http://" + address
}

func (a *APIConfig) checkFiles(flags *admission.HostPermissions) error {
	var errs []error
	if (a.CertFile == "") != (a.KeyFile == "") {
		errs = append(errs, errors.New("the API's certificate needs its key and a key its certificate: give both files or neither"))
	}
	if a.OperatorsGroup != "" && a.Socket == "" {
		errs = append(errs, errors.New("the operators' group has no effect without a socket, which identifies users"))
	}
	if a.AccessFile != "" && (len(flags.Volumes) > 0 || len(flags.Devices) > 0 || flags.HostIPC) {
		errs = append(errs, errors.New("the access file sets what jobs may use, under jobs: remove --allow-volumes, --allow-devices and --allow-host-ipc"))
	}
	return errors.Join(errs...)
}

// checkListenAddress rejects an address where the API would be unprotected.
func (a *APIConfig) checkListenAddress(addr net.Addr, log logrus.FieldLogger) error {
	at, ok := addr.(*net.TCPAddr)
	if !ok || at.IP.IsLoopback() || a.AccessFile != "" && a.CertFile != "" {
		return nil
	}
	if !a.Open {
		return fmt.Errorf("listen on %s: every client that reaches it could do everything, or read tokens in transit: "+
			"give --access, --api-tls-cert and --api-tls-key, listen on loopback, or open it by --insecure-api",
			at)
	}
	log.WithField("addr", at.String()).Warn("the API listens on a network address: every client that reaches it may do everything, or read the traffic")
	return nil
}

// apiSecurity authenticates, authorizes and audits requests to the API.
type apiSecurity struct {
	gate            *gate.Gate                      // nil: every client may do everything
	audit           *audit.AuditLog                 // nil: no audit log
	certificate     *apiserver.ReloadingCertificate // nil: plain HTTP
	leaderTransport http.RoundTripper               // for requests to the leader
}

// openSecurity reads the certificates and the access file, and opens the audit log.
// host limits the host resources that jobs may use without an access file.
func (a *APIConfig) openSecurity(host admission.HostPermissions, log logrus.FieldLogger) (d apiSecurity, err error) {
	if d.leaderTransport, err = a.newLeaderTransport(); err != nil {
		return d, err
	}
	if a.CertFile != "" {
		if d.certificate, err = apiserver.LoadCertificate(a.CertFile, a.KeyFile, log); err != nil {
			return d, err
		}
	}
	var users *gate.UnixUsers
	if a.Socket != "" {
		users = &gate.UnixUsers{OperatorsGroup: a.OperatorsGroup, Host: host}
	}
	if a.AccessFile != "" || users != nil {
		if d.gate, err = gate.Open(a.AccessFile, users, log); err != nil {
			return d, err
		}
	}
	if a.AuditFile != "" {
		if d.audit, err = audit.Open(a.AuditFile, log); err != nil {
			return d, err
		}
	}
	return d, nil
}

// newLeaderTransport returns the transport for requests to the leader.
func (a *APIConfig) newLeaderTransport() (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if a.CAFile == "" {
		return t, nil
	}
	pem, err := os.ReadFile(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API's authorities: %w", err)
	}
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the API's authorities: %s has no PEM certificate in %d bytes", a.CAFile, len(pem))
	}
	return t, nil
}

// wrapListener adds TLS to l if there is a certificate.
func (s *apiSecurity) wrapListener(l net.Listener) net.Listener {
	if s.certificate == nil {
		return l
	}
	return tls.NewListener(l, s.certificate.TLSConfig())
}

// wrapHandler puts the API behind authentication, authorization and the check of
// the Host header; advertised is the URL that the scheduler publishes.
func (s *apiSecurity) wrapHandler(h http.Handler, advertised string, log logrus.FieldLogger) http.Handler {
	if s.audit != nil {
		h = s.audit.Wrap(h)
	}
	if s.gate != nil {
		return s.gate.Wrap(h, append(apiserver.OpenPaths(), pingPath)...)
	}
	return apiserver.RestrictHosts(h, log, ownHostNames(advertised)...) // without tokens, only the Host header exposes a web page's cross-site request
}

// wrapSocketHandler is wrapHandler for the unix socket. Its users need no token, so the
// Host header is checked too: a user may forward a port of a browser's machine to it.
func (s *apiSecurity) wrapSocketHandler(h http.Handler, advertised string, log logrus.FieldLogger) http.Handler {
	return apiserver.RestrictHosts(s.wrapHandler(h, advertised, log), log, ownHostNames(advertised)...)
}

// ownHostNames returns the machine's names and the host of the advertised URL.
func ownHostNames(advertised string) (list []string) {
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		list = append(list, name, short)
	}
	if u, err := url.Parse(advertised); err == nil {
		list = append(list, u.Hostname())
	}
	return list
}

// readAccessFile reads the access file again and returns its limits for jobs.
// The new permissions apply once the caller calls take.
func (s *apiSecurity) readAccessFile() (jobs []admission.RolePermissions, take func(), err error) {
	if s.gate == nil {
		return nil, func() {}, nil
	}
	return s.gate.PrepareReload()
}

// maySubmit reports whether the owner of a job that was submitted earlier may
// still submit to role. A job without an owner predates the access file and is allowed.
func (s *apiSecurity) maySubmit(owner, role string) bool {
	return s.gate == nil || owner == "" || s.gate.CanSubmit(owner, role)
}

// jobPermissions returns the access file's limits for jobs, nil if there is no access file.
func (s *apiSecurity) jobPermissions() []admission.RolePermissions {
	if s.gate == nil {
		return nil
	}
	return s.gate.JobLimits()
}

// closeFiles closes the audit log.
func (s *apiSecurity) closeFiles() error {
	if s.audit == nil {
		return nil
	}
	return s.audit.Close()
}
