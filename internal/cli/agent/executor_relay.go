package agent

import (
	"io"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/portrelay"
)

// executorRelayCommand connects to ports of a task for the scheduler, which starts it on
// the agent, in the network of the task's executor.
func (a *agentCommands) executorRelayCommand() *cobra.Command {
	return &cobra.Command{
		Use: "relay", Short: "Connect to ports of this executor's task; the scheduler starts this", Args: cli.RequireArgs(), Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return portrelay.Serve(c.Context(), standardStream{a.Stdin, a.Stdout})
		},
	}
}

// standardStream is the standard input and output as one stream.
type standardStream struct {
	io.Reader
	io.Writer
}

// Close closes the input, which ends a blocked Read of a pipe.
func (s standardStream) Close() error {
	if in, ok := s.Reader.(io.Closer); ok {
		return in.Close()
	}
	return nil
}
