package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
)

// processIO is the process's outside: streams and environment.
type processIO struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

// exitStatus ends the program with a code and no message.
type exitStatus struct{ code int }

func (e *exitStatus) Error() string { return fmt.Sprintf("exit status %d", e.code) }

func asExitStatus(err error, to **exitStatus) bool { return errors.As(err, to) }

// usageError is a mistake in the command line itself.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func isUsage(err error) bool {
	var usage *usageError
	return errors.As(err, &usage)
}

// cliApp is what the commands share.
type cliApp struct {
	processIO
	// format is the -o of the command, json that it is one for programs. bare tables
	// have no first line.
	format    string
	noHeaders bool

	apiAddress  string
	forPrograms bool

	credential apiCredential
}

const defaultAPI = "http://127.0.0.1:8080"

func newRoot(s processIO) *cobra.Command {
	a := &cliApp{processIO: s}
	root := &cobra.Command{
		Use:           "mesos-gpu",
		Short:         "GPU scheduling for Apache Mesos",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          rejectUnknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(s.stdin)
	root.SetOut(s.stdout)
	root.SetErr(s.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if next := suggestFlag(c, err); next != "" {
			return &usageError{fmt.Errorf("%w: %s", err, next)}
		}
		return &usageError{fmt.Errorf("%w: see %s --help", describeFlagError(err), c.CommandPath())}
	})
	api := s.getenv("MESOS_GPU_API")
	if api == "" {
		api = defaultAPI
	}
	root.PersistentFlags().StringVar(&a.apiAddress, "api", api, "the scheduler's address, or several with commas between; also MESOS_GPU_API")
	a.credential.register(root.PersistentFlags(), s.getenv)
	root.AddGroup(&cobra.Group{ID: "jobs", Title: "Jobs:"}, &cobra.Group{ID: "cluster", Title: "Cluster:"}, &cobra.Group{ID: "daemons", Title: "Daemons:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("jobs", a.runCommand(), a.submitCommand(), a.psCommand(), a.describeCommand(), a.logsCommand(), a.execCommand(), a.shellCommand(), a.killCommand(), a.stopCommand(), a.scaleCommand(), a.schedulesCommand(), a.schemaCommand(), a.marathonCommand())
	add("cluster", a.agentsCommand(), a.gpusCommand(), a.discoverCommand(), a.volumeCommand(), a.simulateCommand(), a.tokenCommand())
	add("daemons", a.localCommand(), a.schedulerCommand(), a.agentCommand(), a.executorCommand())
	root.AddCommand(a.versionCommand(), containerInitCommand(), manCommand())
	add("jobs", a.validateCommand(), a.explainCommand(), a.eventsCommand(), a.waitCommand())
	add("cluster", append(a.cordonCommands(), a.queueCommand(), a.quotaCommand(), a.topCommand())...)
	for _, c := range root.Commands() {
		c.SuggestFor = commandAliases()[c.Name()]
	}
	a.addCompletions(root)
	a.suggestNames(root)
	addExamples(root)
	rejectUnknownHelp(root)
	rejectUnknownShell(root)
	return root
}

// rejectUnknownCommand refuses a word that is no command, with the one that was
// probably meant.
func rejectUnknownCommand(c *cobra.Command, got []string) error {
	if len(got) == 0 {
		return nil
	}
	hint := fmt.Sprintf("see %s --help", c.CommandPath())
	if near := nearestCommand(c, got[0]); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return &usageError{fmt.Errorf("unknown command %q: %s", got[0], hint)}
}

// escapeControls shows control characters of somebody else's text as escapes, so
// that they change nothing on a terminal. Line ends stay.
func escapeControls(s string) string {
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isControl(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// atLeast is args for one or more of a kind.
func atLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) > 0 && !slices.Contains(got, "") {
			return nil
		}
		return requireArgs(name)(c, []string{})
	}
}

// atMost is args for one of a kind, or none.
func atMost(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) == 0 {
			return nil
		}
		return requireArgs(name)(c, got)
	}
}

// requireArgs checks a command's arguments and names what is missing.
func requireArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) < len(names) || slices.Contains(got, "") {
			missing := slices.Index(append(slices.Clone(got), ""), "")
			return &usageError{fmt.Errorf("%s needs %s: see %s --help", c.CommandPath(), names[min(missing, len(names)-1)], c.CommandPath())}
		}
		if len(got) > len(names) {
			return &usageError{fmt.Errorf("%s takes no %q: see %s --help", c.CommandPath(), got[len(names)], c.CommandPath())}
		}
		return nil
	}
}

func (a *cliApp) newClient() (*client.Client, error) { return a.connectTo(a.apiAddress) }

func (a *cliApp) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: requireArgs(),
		Run: func(*cobra.Command, []string) { fmt.Fprintf(a.stdout, "mesos-gpu %s\n", version) },
	}
}
