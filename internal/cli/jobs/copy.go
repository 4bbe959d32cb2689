package jobs

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

func (a *jobCommands) copyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cp SOURCE TARGET", Short: "Copy files from a task's sandbox, or into a running task",
		Long: "Copy files from a task's sandbox, or into a running task. One of SOURCE and TARGET is JOB:PATH or JOB.NUMBER:PATH; the other is a local path.\n" +
			"PATH is relative to the sandbox, in which tasks start, and may be a folder. Into a task it may also be an absolute path of the container.\n" +
			"Files are read until Mesos removes the sandbox, some time after the end of the task. With the TARGET - a file goes to standard output.",
		Example: "  mesos-gpu cp train:checkpoints/ .\n  mesos-gpu cp sweep.3:result.json -\n  mesos-gpu cp config.yaml train:",
		Args:    cli.RequireArgs("SOURCE", "TARGET"),
		RunE: func(c *cobra.Command, args []string) error {
			source, fromTask := parseTaskPath(args[0])
			target, intoTask := parseTaskPath(args[1])
			if fromTask == intoTask {
				return &cli.UsageError{Err: fmt.Errorf("one of %s and %s must be JOB:PATH, and the other a local path: write ./%s for a local name with a colon",
					args[0], args[1], args[0])}
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			if intoTask {
				return a.copyIntoTask(c.Context(), api, args[0], target)
			}
			return a.copyFromTask(c.Context(), api, source, args[1])
		},
		ValidArgsFunction: func(c *cobra.Command, before []string, _ string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
}

// taskPath is a path in a task's sandbox.
type taskPath struct{ task, path string }

// parseTaskPath parses JOB:PATH. A local path has no colon, or a slash before it.
func parseTaskPath(text string) (p taskPath, ok bool) {
	task, name, ok := strings.Cut(text, ":")
	if !ok || task == "" || strings.ContainsAny(task, "/") || task == "." {
		return p, false
	}
	return taskPath{task, name}, true
}

func (a *jobCommands) copyFromTask(ctx context.Context, c *client.Client, from taskPath, target string) error {
	task, err := resolveTask(ctx, c, from.task)
	if err != nil {
		return err
	}
	if target == "-" {
		file, _, err := c.OpenTaskFile(ctx, task.ID, from.path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(a.Stdout, file)
		return err
	}
	progress := a.newCopyProgress("copying " + path.Base("/"+from.path))
	defer progress.finish()
	return c.CopyFromTask(ctx, task.ID, from.path, target, client.CopyOptions{OnProgress: progress.add, OnSkip: func(_ string, why error) {
		fmt.Fprintf(a.Stderr, "mesos-gpu: left out: %v\n", why)
	}})
}

func (a *jobCommands) copyIntoTask(ctx context.Context, c *client.Client, source string, to taskPath) error {
	task, err := resolveTask(ctx, c, to.task)
	if err != nil {
		return err
	}
	progress := a.newCopyProgress("copying " + source)
	defer progress.finish()
	return c.CopyIntoTask(ctx, task.ID, source, to.path, client.CopyOptions{OnProgress: progress.add})
}

// copyProgress is a progress bar for each file of known size.
type copyProgress struct {
	app  *cli.App
	verb string
	part func(int64)
	done func()
	left int64
}

func (a *jobCommands) newCopyProgress(verb string) *copyProgress {
	return &copyProgress{app: a.App, verb: verb, done: func() {}}
}

func (p *copyProgress) add(copied, total int64) {
	if p.left <= 0 && total > 0 { // the next file
		p.done()
		p.left = total
		if p.part, p.done = p.app.StartProgress(p.verb, total); p.part == nil {
			p.part = func(int64) {}
		}
	}
	if p.part != nil && total > 0 {
		p.part(copied)
	}
	p.left -= copied
}

func (p *copyProgress) finish() { p.done() }

func (a *jobCommands) listFilesCommand() *cobra.Command {
	c := a.NewShowCommand("ls", "List the files in a task's sandbox", []string{"JOB[.NUMBER][:PATH]"},
		func(ctx context.Context, c *client.Client, args []string) (cli.CommandResult, error) {
			of, ok := parseTaskPath(args[0])
			if !ok {
				of = taskPath{task: args[0]}
			}
			task, err := resolveTask(ctx, c, of.task)
			if err != nil {
				return cli.CommandResult{}, err
			}
			list, err := c.ListTaskFiles(ctx, task.ID, of.path)
			return cli.CommandResult{Data: list, Print: func(p *term.TablePrinter) error { return printFiles(p, list) }}, err
		})
	c.Long = "List the files in a task's sandbox, in which tasks start, until Mesos removes it some time after the end of the " +
		"task. For the list of jobs see mesos-gpu ps."
	c.Example = "  mesos-gpu ls train\n  mesos-gpu ls train.3:checkpoints"
	c.ValidArgsFunction = a.completeRunning
	return c
}

func printFiles(p *term.TablePrinter, list api.SandboxList) error {
	files := list.Files
	if !list.File.Folder {
		files = []api.SandboxFile{list.File}
	}
	return term.PrintTable(p.WithEmptyText("The folder is empty."), files, []term.TableColumn[api.SandboxFile]{
		{Name: "NAME", Value: func(f api.SandboxFile) string {
			if f.Folder {
				return f.Name + "/"
			}
			return f.Name
		}},
		{Name: "BYTES", Value: func(f api.SandboxFile) string {
			if f.Folder {
				return "-"
			}
			return fmt.Sprint(f.Bytes)
		}},
		{Name: "MODE", Value: func(f api.SandboxFile) string { return f.Mode }},
		{Name: "MODIFIED", Value: func(f api.SandboxFile) string { return term.FormatTime(f.Modified) }},
	})
}
