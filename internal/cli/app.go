// Package cli has what the commands of mesos-gpu share: standard streams and
// environment, the connection to the scheduler's API, output formats, completion,
// advice on errors, the log, and notifications to systemd. It defines no command:
// the packages below it do, and package main joins them.
package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
)

// ProcessIO is the process's outside: streams and environment.
type ProcessIO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

// ExitStatus ends the program with a code and no message.
type ExitStatus struct{ Code int }

func (e *ExitStatus) Error() string { return fmt.Sprintf("exit status %d", e.Code) }

func AsExitStatus(err error, to **ExitStatus) bool { return errors.As(err, to) }

// UsageError is a mistake in the command line itself.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

func IsUsage(err error) bool {
	var usage *UsageError
	return errors.As(err, &usage)
}

// App is what the commands share.
type App struct {
	Version string
	ProcessIO
	// Format is the -o of the command, json that it is one for programs. bare tables
	// have no first line.
	Format    string
	noHeaders bool

	APIAddress  string
	ForPrograms bool

	Credential apiCredential
}

const DefaultAPI = "http://127.0.0.1:8080"

// RejectUnknownCommand refuses a word that is no command, with the one that was
// probably meant.
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

// AtLeast is args for one or more of a kind.
func AtLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) > 0 && !slices.Contains(got, "") {
			return nil
		}
		return RequireArgs(name)(c, []string{})
	}
}

// AtMost is args for one of a kind, or none.
func AtMost(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if len(got) == 0 {
			return nil
		}
		return RequireArgs(name)(c, got)
	}
}

// RequireArgs checks a command's arguments and names what is missing.
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
