package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/framework"
	"mesos-gpu/framework/access"
	"mesos-gpu/framework/client"
)

// addAPIFlags say who gets at a scheduler's API.
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

// negatedBool is a flag for what is on where its value is false.
type negatedBool bool

func (n *negatedBool) String() string { return strconv.FormatBool(!bool(*n)) }
func (n *negatedBool) Type() string   { return "bool" }

func (n *negatedBool) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*n = negatedBool(!on)
	return err
}

// apiCredential is by what the command line asks a scheduler. A token stands in a
// file or the environment, never on a command line, which others can see.
type apiCredential struct{ tokenFile, ca string }

func (c *apiCredential) register(f *pflag.FlagSet, getenv func(string) string) {
	f.StringVar(&c.tokenFile, "token-file", getenv("MESOS_GPU_TOKEN_FILE"), "file with the token for the scheduler; also MESOS_GPU_TOKEN_FILE, or the token itself in MESOS_GPU_TOKEN")
	f.StringVar(&c.ca, "ca", getenv("MESOS_GPU_CA"), "certificates to trust for the scheduler, instead of the system's; also MESOS_GPU_CA")
}

// connectTo makes a client of the API at an address.
func (a *cliApp) connectTo(address string) (*client.Client, error) {
	var options []client.ClientOption
	token := ""
	if a.getenv != nil {
		token = a.getenv("MESOS_GPU_TOKEN")
	}
	if a.credential.tokenFile != "" {
		text, warning, err := client.ReadToken(a.credential.tokenFile)
		if err != nil {
			return nil, err
		}
		if warning != "" {
			fmt.Fprintf(a.stderr, "mesos-gpu: %s\n", warning)
		}
		token = text
	}
	if token != "" {
		options = append(options, client.WithToken(token))
	}
	if a.credential.ca != "" {
		options = append(options, client.WithTrustedCA(a.credential.ca))
	}
	return client.New(address, options...)
}

func (a *cliApp) tokenCommand() *cobra.Command {
	return &cobra.Command{
		Use: "token NAME", Short: "Make a token for the scheduler's access file",
		Long: "Make a token for the scheduler's access file. The token goes to standard output, for its user alone, and is kept nowhere;\n" +
			"the lines for the file go to standard error: they hold its hash only.",
		Args: requireArgs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			token, hash, err := access.NewToken(args[0])
			if err != nil {
				return &usageError{err}
			}
			if _, err := fmt.Fprintln(a.stdout, token); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stderr, "tokens:\n  - name: %s\n    hash: %s\n", args[0], hash)
			return err
		},
	}
}
