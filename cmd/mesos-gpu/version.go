package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/internal/cli"
	"mesos-gpu/isolator/module"
	"mesos-gpu/isolator/socket"
)

// version is set at link time.
var version = "unknown"

// releaseInfo is the output of "mesos-gpu version": this release and the versions of
// its interfaces, which decide what works together.
type releaseInfo struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// API is the version of the REST API.
	API string `json:"api"`
	// AgentAPI is the version of the API between the agents' module and the daemon.
	AgentAPI string `json:"agent_api"`
	// JournalSchema is the schema that this release writes, OldestSchema the oldest
	// that it opens.
	JournalSchema int `json:"journal_schema"`
	OldestSchema  int `json:"oldest_journal_schema"`
	// Module describes the module on this machine, null if none exists.
	Module *module.Info `json:"module"`
}

func versionCommand(a *cli.App) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "version", Short: "Print the version, and those of API, module and journal", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			r := releaseInfo{
				Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
				API: api.Version, AgentAPI: socket.APIVersion, JournalSchema: journal.Schema, OldestSchema: journal.OldestSchema,
			}
			info, err := module.ReadInfo(file)
			if err == nil {
				r.Module = &info
			} else if !errors.Is(err, fs.ErrNotExist) || c.Flags().Changed("module") {
				return err
			}
			return printVersion(a, r)
		},
	}
	c.Flags().StringVar(&file, "module", module.InstalledPath, "file of the module for Mesos agents")
	a.AddOutputFlag(c)
	return c
}

func printVersion(a *cli.App, r releaseInfo) error {
	if a.ForPrograms {
		return a.PrintJSON(r)
	}
	installed := "none on this machine"
	if r.Module != nil {
		installed = fmt.Sprintf("%s, for Mesos %s, agent API %s", r.Module.File, r.Module.Mesos, cmp.Or(r.Module.AgentAPI, "unknown"))
	}
	_, err := fmt.Fprintf(a.Stdout, "mesos-gpu %s\napi      %s\nmodule   agent API %s; %s\njournal  schema %d, opens %d to %d\nbuild    %s %s\n",
		r.Version, r.API, r.AgentAPI, installed, r.JournalSchema, r.OldestSchema, r.JournalSchema, r.Go, r.Platform)
	return err
}
