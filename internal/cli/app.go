// Package cli provides what the commands of mesos-gpu share: standard streams and
// environment, the connection to the scheduler's API, output formats, completion,
// hints for errors, the log, and notifications to systemd. It defines no command.
// The packages below it define the commands, and package main combines them.
package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
)

// ProcessIO is the interface of the process to its environment: streams and variables.
type ProcessIO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

// ExitStatus is an error that ends the program with a code and prints no message.
type ExitStatus struct{ Code int }

func (e *ExitStatus) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

func AsExitStatus(err error, to **ExitStatus) bool { return errors.As(err, to) }

// UsageError is an error in the command line, such as a wrong flag or argument.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

func IsUsage(err error) bool {
	var usage *UsageError
	return errors.As(err, &usage)
}

// App is the state that all commands share.
type App struct {
	Version string
	ProcessIO
	// Format is the value of -o. ForPrograms is set if that is a machine-readable
	// format. noHeaders omits the header line of tables.
	Format    string
	noHeaders bool

	APIAddress  string
	ForPrograms bool

	Credential apiCredential
}

const DefaultAPI = "http://127.0.0.1:8080"

// RejectUnknownCommand returns a UsageError for an unknown subcommand. The error
// suggests the nearest command, if there is one.
func RejectUnknownCommand(c *cobra.Command, got []string) error {
	if len(got) == 0 {
		return nil
	}
	hint := fmt.Sprintf("see %s --help", c.CommandPath())
	if near := NearestCommand(c, got[0]); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return &UsageError{fmt.Errorf("unknown command %q: %s", got[0], hint)}
}

// AtLeast accepts one or more arguments; name is used in the error.
func AtLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) > 0 && !slices.Contains(got, "") {
			return nil
		}
		return RequireArgs(name)(c, []string{})
	}
}

// AtMost accepts no argument or one; name is used in the error.
func AtMost(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) == 0 {
			return nil
		}
		return RequireArgs(name)(c, got)
	}
}

// RequireArgs accepts exactly these arguments. The error names the first missing or
// superfluous argument. An empty argument counts as missing.
func RequireArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) < len(names) || slices.Contains(got, "") {
			missing := slices.Index(append(slices.Clone(got), ""), "")
			return &UsageError{fmt.Errorf("%s needs %s: see %s --help", c.CommandPath(), names[min(missing, len(names)-1)], c.CommandPath())}
		}
		if len(got) > len(names) {
			return &UsageError{fmt.Errorf("%s takes no %q: see %s --help", c.CommandPath(), got[len(names)], c.CommandPath())}
		}
		return nil
	}
}

func (a *App) NewClient() (*client.Client, error) { return a.ConnectTo(a.APIAddress) }
