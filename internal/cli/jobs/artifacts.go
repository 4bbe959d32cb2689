package jobs

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

func (a *jobCommands) artifactsCommand() *cobra.Command {
	c := a.NewShowCommand("artifacts", "List the artifacts of a job's tasks", []string{"JOB"},
		func(ctx context.Context, c *client.Client, args []string) (cli.CommandResult, error) {
			list, err := c.ListArtifacts(ctx, args[0])
			return cli.CommandResult{Data: list, Print: func(p *term.TablePrinter) error { return printArtifacts(p, args[0], list) }}, err
		})
	c.Long = "List the files that the scheduler has copied from the sandboxes of a job's ended tasks: those of the key artifacts. " +
		"mesos-gpu cp reads them, also after Mesos has removed the sandboxes."
	c.Example = "  mesos-gpu artifacts train\n  mesos-gpu artifacts train@2\n  mesos-gpu cp train:results ."
	return c
}

// artifactRow is a line of the list: a file, or what became of a task without one.
type artifactRow struct{ path, bytes, note string }

func printArtifacts(p *term.TablePrinter, name string, list api.ArtifactList) error {
	var rows []artifactRow
	for _, t := range list.Tasks {
		prefix := fmt.Sprintf("%s.%d:", name, t.Index)
		for _, f := range t.Files {
			rows = append(rows, artifactRow{prefix + f.Path, fmt.Sprint(f.Bytes), "-"})
		}
		for _, missing := range t.Missing {
			rows = append(rows, artifactRow{prefix + missing, "-", "the task has not written it"})
		}
		switch {
		case t.Error != "":
			rows = append(rows, artifactRow{strings.TrimSuffix(prefix, ":"), "-", t.Error})
		case t.Copied.IsZero():
			rows = append(rows, artifactRow{strings.TrimSuffix(prefix, ":"), "-", "copied after the end of the task"})
		}
	}
	return term.PrintTable(p.WithEmptyText("The job has no artifacts."), rows, []term.TableColumn[artifactRow]{
		{Name: "ARTIFACT", Value: func(r artifactRow) string { return r.path }},
		{Name: "BYTES", Value: func(r artifactRow) string { return r.bytes }},
		{Name: "NOTE", Value: func(r artifactRow) string { return r.note }},
	})
}
