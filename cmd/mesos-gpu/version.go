package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// version is set at link time.
var version = "unknown"

func versionCommand(stdout io.Writer) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cli.RequireArgs(),
		Run: func(*cobra.Command, []string) { fmt.Fprintf(stdout, "mesos-gpu %s\n", version) },
	}
}
