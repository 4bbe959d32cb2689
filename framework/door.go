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
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
)

// API says who gets at a scheduler's API, and how. The zero value is open to
// whoever reaches it, in plain HTTP.
type API struct {
	// AccessFile says who may do what: see package access.
	AccessFile string
	// CertFile and KeyFile are the certificate by which the API speaks TLS.
	// They are read again when they change.
	CertFile, KeyFile string
	// CAFile has the certificates to trust where another scheduler's API is
	// asked; "" trusts the system's.
	CAFile string
	// AuditFile gets a line for each change; "" is none.
	AuditFile string
	// Open lets the API listen beyond loopback without TLS and access file.
	Open bool
	// NoExec has it run no commands in tasks' containers.
	NoExec bool
}

// handler is the API of what backend answers.
func (a *API) handler(backend func() api.Backend, log logrus.FieldLogger) http.Handler {
	if a.NoExec {
		return api.Handler(backend, log, api.WithoutExec())
	}
	return api.Handler(backend, log)
}

// URL is that of an API at host:port.
func (a *API) URL(address string) string {
	if a.CertFile != "" {
		return "https://" + address
	}
	return "http://" + address
}

func (a *API) validate(flags *sched.Allowed) error {
	var errs []error
	if (a.CertFile == "") != (a.KeyFile == "") {
		errs = append(errs, errors.New("the API's certificate needs its key and a key its certificate: give both files or neither"))
	}
	if a.AccessFile != "" && (len(flags.Volumes) > 0 || flags.HostIPC) {
		errs = append(errs, errors.New("with an access file, what jobs may have stands there, under jobs: leave --allow-volumes and --allow-host-ipc out"))
	}
	return errors.Join(errs...)
}

// admits refuses an address where secrets and jobs would be anybody's.
func (a *API) admits(addr net.Addr, log logrus.FieldLogger) error {
	at, ok := addr.(*net.TCPAddr)
	if !ok || at.IP.IsLoopback() || a.AccessFile != "" && a.CertFile != "" {
		return nil
	}
	if !a.Open {
		return fmt.Errorf("listen on %s: whoever reaches it could do everything, or read tokens on the way: give --access, --api-tls-cert and --api-tls-key, listen on loopback, or open it by --insecure-api", at)
	}
	log.WithField("addr", at.String()).Warn("the API listens beyond this machine, and whoever reaches it may do everything or read what is sent")
	return nil
}

// door is what stands before the API.
type door struct {
	gate  *gate.Gate        // nil: everybody may do everything
	audit *audit.Log        // nil: nobody takes notes
	cert  *api.Certificate  // nil: plain HTTP
	relay http.RoundTripper // to the scheduler that leads
}

// open reads the files.
func (a *API) open(log logrus.FieldLogger) (d door, err error) {
	if d.relay, err = a.transport(); err != nil {
		return d, err
	}
	if a.CertFile != "" {
		if d.cert, err = api.LoadCertificate(a.CertFile, a.KeyFile, log); err != nil {
			return d, err
		}
	}
	if a.AccessFile != "" {
		if d.gate, err = gate.Open(a.AccessFile, log); err != nil {
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

// transport is how the scheduler that leads is asked.
func (a *API) transport() (http.RoundTripper, error) {
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

// listener speaks TLS where there is a certificate.
func (d *door) listener(l net.Listener) net.Listener {
	if d.cert == nil {
		return l
	}
	return tls.NewListener(l, d.cert.Config())
}

// wrap has requests to the scheduler of that URL pass the door.
func (d *door) wrap(h http.Handler, at string, log logrus.FieldLogger) http.Handler {
	if d.audit != nil {
		h = d.audit.Wrap(h)
	}
	if d.gate != nil {
		return d.gate.Wrap(h, append(api.Open(), pingPath)...)
	}
	return api.OwnHosts(h, log, names(at)...) // without tokens nothing else tells a site's page from a program
}

// names are the machine's, and that of the URL.
func names(at string) (list []string) {
	if name, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(name, ".")
		list = append(list, name, short)
	}
	if u, err := url.Parse(at); err == nil {
		list = append(list, u.Hostname())
	}
	return list
}

// read reads the access file again, which holds once it is taken.
func (d *door) read() (jobs []sched.AllowedIn, take func(), err error) {
	if d.gate == nil {
		return nil, func() {}, nil
	}
	return d.gate.Read()
}

// maySubmit reports whether the owner of what was submitted earlier may still
// do so. Before there was an access file everybody did.
func (d *door) maySubmit(owner, role string) bool {
	return d.gate == nil || owner == "" || d.gate.MaySubmit(owner, role)
}

// jobs is what the access file says jobs may have.
func (d *door) jobs() []sched.AllowedIn {
	if d.gate == nil {
		return nil
	}
	return d.gate.Jobs()
}

// close closes what open opened.
func (d *door) close() error {
	if d.audit == nil {
		return nil
	}
	return d.audit.Close()
}
