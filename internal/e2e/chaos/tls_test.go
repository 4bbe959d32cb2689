//go:build mesos

package chaos

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/clustersetup"
)

// authority signs the certificates of a cluster.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "cluster"}}, key}
	if a.certificate, err = x509.ParseCertificate(a.sign(t, a.certificate, &key.PublicKey)); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign returns a certificate of the key in DER.
func (a *authority) sign(t *testing.T, form *x509.Certificate, key *ecdsa.PublicKey) []byte {
	t.Helper()
	form.SerialNumber = big.NewInt(time.Now().UnixNano())
	form.NotBefore, form.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, form, a.certificate, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// createCertificate returns a certificate for an address and its key, both in PEM.
func (a *authority) createCertificate(t *testing.T, ip string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := a.sign(t, &x509.Certificate{IPAddresses: []net.IP{net.ParseIP(ip)}}, &private.PublicKey)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encodeCertificate(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// clientConfig trusts the servers of the cluster.
func (a *authority) clientConfig() *tls.Config {
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.certificate)
	return config
}

// answersTLS reports whether a Mesos program answers all requests by TLS. One that was built with libev, not with libevent, leaves
// some without an answer.
func answersTLS(t *testing.T, program string) bool {
	t.Helper()
	libraries, err := exec.Command("ldd", program).Output()
	if err != nil {
		t.Fatalf("ldd %s: %v", program, err)
	}
	return bytes.Contains(libraries, []byte("libevent_openssl"))
}

// passSocketScript does what systemd does for a service with a socket: it listens on the path, and starts the command with the socket.
const passSocketScript = `my ($path, $name, @command) = @ARGV;
$^F = 3; # file descriptors that the command inherits
mkdir File::Basename::dirname($path);
unlink $path;
my $socket = IO::Socket::UNIX->new(Local => $path, Listen => 128) or die "$path: $!";
chmod 0666, $path;
POSIX::dup2(fileno($socket), 3);
@ENV{qw(LISTEN_PID LISTEN_FDS LISTEN_FDNAMES)} = ($$, 1, $name);
exec @command or die;`

// passSocket returns the beginning of the command line of a program that is started with a socket. options are its path and its name.
func passSocket(options []string) []string {
	return append([]string{"perl", "-MIO::Socket::UNIX", "-MPOSIX", "-MFile::Basename", "-e", passSocketScript}, options...)
}

// createTLSEnv creates the certificate of a host. It returns the folder, and the variables of TLS that the guided setup writes for an
// agent; those of a master are a part of them.
func (c *chaosCluster) createTLSEnv(h *host) (dir string, env []string) {
	c.t.Helper()
	dir = c.makeDir(filepath.Join(h.name, "tls"))
	certificate, key := c.authority.createCertificate(c.t, h.ip)
	for name, text := range map[string][]byte{"ca.pem": encodeCertificate(c.authority.certificate.Raw), "cert.pem": certificate, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	files, err := clustersetup.WriteFiles(clustersetup.Agent, clustersetup.ClusterConfig{IP: h.ip, Masters: []string{h.ip}, TLS: dir})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, file := range files {
		for line := range strings.Lines(file.Text) {
			if file.Path == clustersetup.AgentEnv && (strings.HasPrefix(line, "LIBPROCESS_SSL_") || strings.Contains(line, "DOMAIN_SOCKET")) {
				env = append(env, strings.TrimSpace(line))
			}
		}
	}
	return dir, env
}
