package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"mesos-gpu/internal/cli"
)

// manCommand writes the manual pages, one for each visible command. Packages install
// its output.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual's pages", Hidden: true, Args: cli.RequireArgs("DIR"),
		RunE: func(c *cobra.Command, to []string) error {
			if err := os.MkdirAll(to[0], 0o755); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			root := c.Root()
			root.DisableAutoGenTag = true // its date would make builds irreproducible
			header := &doc.GenManHeader{Section: "1", Source: "mesos-gpu " + version, Manual: "mesos-gpu"}
			if err := doc.GenManTree(root, header, to[0]); err != nil {
				return fmt.Errorf("write the manual: %w", err)
			}
			return nil
		},
	}
}
