package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
)

// NewClient returns a client of the API that flags, the environment or the configuration file select.
func (a *App) NewClient() (*client.Client, error) {
	if _, err := a.readConfig(); err != nil {
		return nil, err
	}
	return a.ConnectTo(a.APIAddress)
}

// WithClient returns the RunE of a command that first connects to the API.
func (a *App) WithClient(run func(ctx context.Context, api *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		api, err := a.NewClient()
		if err != nil {
			return err
		}
		return run(c.Context(), api, args)
	}
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
