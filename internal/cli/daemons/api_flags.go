package daemons

import (
	"strconv"

	"github.com/spf13/pflag"

	"mesos-gpu/framework"
)

// addAPIFlags adds the flags for access to a scheduler's API.
func addAPIFlags(f *pflag.FlagSet, a *framework.APIConfig) {
	f.StringVar(&a.AccessFile, "access", "", "file that says who may do what, and what jobs may have; read again on SIGHUP")
	f.StringVar(&a.CertFile, "api-tls-cert", "", "certificate by which the API speaks TLS; read again when it changes")
	f.StringVar(&a.KeyFile, "api-tls-key", "", "its key")
	f.StringVar(&a.CAFile, "api-tls-ca", "", "certificates to trust where the scheduler that leads is asked")
	f.StringVar(&a.AuditFile, "audit-log", "", "file that gets a line for each change")
	f.Var((*negatedBool)(&a.NoExec), "exec", "let people run commands in their jobs' containers: mesos-gpu exec and shell")
	f.Lookup("exec").NoOptDefVal = "true"
	f.BoolVar(&a.Open, "insecure-api", false, "let the API listen beyond loopback without --access and a certificate: whoever reaches it may do everything")
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
