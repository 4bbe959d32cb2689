package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"mesos-gpu/framework/client"
)

// apiCredential configures authentication to the scheduler's API. A token comes from a
// file or the environment, never from the command line, which other users can read.
type apiCredential struct{ tokenFile, ca string }

func (c *apiCredential) Register(f *pflag.FlagSet, getenv func(string) string) {
	f.StringVar(&c.tokenFile, "token-file", getenv("MESOS_GPU_TOKEN_FILE"), "file with the token for the scheduler; also MESOS_GPU_TOKEN_FILE, or the token itself in MESOS_GPU_TOKEN")
	f.StringVar(&c.ca, "ca", getenv("MESOS_GPU_CA"), "certificates to trust for the scheduler, instead of the system's; also MESOS_GPU_CA")
}

// ConnectTo returns a client of the API at an address.
func (a *App) ConnectTo(address string) (*client.Client, error) {
	var options []client.Option
	token := ""
	if a.Getenv != nil {
		token = a.Getenv("MESOS_GPU_TOKEN")
	}
	if a.Credential.tokenFile != "" {
		text, warning, err := client.ReadToken(a.Credential.tokenFile)
		if err != nil {
			return nil, err
		}
		if warning != "" {
			fmt.Fprintf(a.Stderr, "mesos-gpu: %s\n", warning)
		}
		token = text
	}
	if token != "" {
		options = append(options, client.WithToken(token))
	}
	if a.Credential.ca != "" {
		options = append(options, client.WithTrustedCA(a.Credential.ca))
	}
	return client.New(address, options...)
}
