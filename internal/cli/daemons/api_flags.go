package daemons

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"mesos-gpu/framework"
	"mesos-gpu/internal/cli"
)

// addAPIFlags adds the flags for access to a scheduler's API.
func addAPIFlags(f *pflag.FlagSet, a *framework.APIConfig) {
	f.StringVar(&a.AccessFile, "access", "", "file with permissions and job policies; read again on SIGHUP")
	f.StringVar(&a.CertFile, "api-tls-cert", "", "TLS certificate of the API; read again when it changes")
	f.StringVar(&a.KeyFile, "api-tls-key", "", "key of --api-tls-cert")
	f.StringVar(&a.CAFile, "api-tls-ca", "", "certificates to trust in requests to the leading scheduler")
	f.StringVar(&a.AuditFile, "audit-log", "", "audit log: file with one line for each change")
	f.Var((*negatedBool)(&a.NoExec), "exec", "allow users to run commands in their jobs' containers: mesos-gpu exec and shell")
	f.Lookup("exec").NoOptDefVal = "true"
	f.IntVar(&a.MaxConnections, "api-max-connections", framework.DefaultMaxConnections, "open connections to the API, at most half of the process's open files")
	f.IntVar(&a.MaxStreams, "api-max-streams", framework.DefaultMaxStreams, "open event streams and logs")
	f.IntVar(&a.MaxLists, "api-max-lists", framework.DefaultMaxLists, "lists that are sent at a time")
	f.IntVar(&a.MaxRequests, "api-max-requests", framework.DefaultMaxRequests, "other requests that are served at a time")
	f.IntVar(&a.ClientPercent, "api-client-percent", framework.DefaultClientPercent,
		"part of each of these limits, in percent, that one user may use; of the connections, and without --access, one address")
	f.BoolVar(&a.Open, "insecure-api", false,
		"allow an API address other than loopback without --access and a certificate: every client that can reach it has all permissions")
}

// checkListenAddress rejects an address without a port or a host.
func checkListenAddress(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--listen %q: write HOST:PORT, such as 127.0.0.1:8098", address)}
	}
	return nil
}

// checkMaster rejects an address whose scheme is mistyped, which would be taken for a host and a port.
func checkMaster(address string) error {
	if strings.HasPrefix(address, "zk:") && !strings.HasPrefix(address, "zk://") {
		return &cli.UsageError{Err: fmt.Errorf("--master %q: write zk://HOST:PORT,.../PATH", address)}
	}
	return nil
}

// negatedBool is a boolean flag that stores the negation of its value.
type negatedBool bool

func (n *negatedBool) String() string { return strconv.FormatBool(!bool(*n)) }
func (n *negatedBool) Type() string   { return "bool" }

func (n *negatedBool) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*n = negatedBool(!on)
	return err
}
