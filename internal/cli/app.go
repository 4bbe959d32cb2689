// Package cli provides what the commands of mesos-gpu share: standard streams and
// environment, the connection to the scheduler's API, output formats, completion,
// hints for errors, the log, and notifications to systemd. It defines no command.
// The packages below it define the commands, and package main combines them.
package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// ProcessIO is the interface of the process to its environment: streams and variables.
type ProcessIO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
}

// ExitTimedOut is the exit status of timeout(1) after a timeout.
const ExitTimedOut = 124

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

	// config is the configuration file once it is read, and contextName the context of --context. connectionFlags has
	// the flags that replace it.
	config          *clientContext
	contextName     string
	connectionFlags *pflag.FlagSet
}

const DefaultAPI = "http://127.0.0.1:8080"

// DefaultSocket is the unix socket of the service mesos-gpu-local. If it exists, it is the
// scheduler's address that commands use by default.
const DefaultSocket = "/run/mesos-gpu/api.sock"
