package oci

import (
	"errors"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// DefaultPath is the PATH of a process whose environment has none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ImageArgs returns the argument vector of a command in an image, by the table
// of Mesos's docker/runtime isolator. A command with a value replaces the
// image's command. A command without a value replaces the arguments of the
// image's program, which is the first word of Cmd if the image has no
// entrypoint. (Docker would replace the whole command in that case.)
func ImageArgs(command *mesos.CommandInfo, config v1.Config) ([]string, error) {
	if command != nil && (command.Value != nil || command.GetShell()) {
		return CommandArgs(command)
	}
	program, tail := config.Entrypoint, config.Cmd
	if len(program) == 0 && len(tail) > 0 {
		program, tail = tail[:1], tail[1:]
	}
	if len(program) == 0 {
		return nil, errors.New("the image has neither entrypoint nor cmd: give the command a value")
	}
	if len(command.GetArguments()) > 0 {
		tail = command.GetArguments()
	}
	return slices.Concat(program, tail), nil
}

// CommandArgs returns the argument vector of a command without an image. The
// command's value is always the first element.
func CommandArgs(command *mesos.CommandInfo) ([]string, error) {
	switch {
	case command.GetValue() == "" && command.GetShell():
		return nil, errors.New("the command is for a shell but has no value")
	case command.GetValue() == "":
		return nil, errors.New("the command has no value")
	case command.GetShell():
		return []string{"/bin/sh", "-c", command.GetValue()}, nil
	}
	args := []string{command.GetValue()}
	if len(command.Arguments) > 1 {
		args = append(args, command.Arguments[1:]...)
	}
	return args, nil
}

// CommandEnv returns a command's own environment. It fails for secrets, which
// cannot be resolved here.
func CommandEnv(command *mesos.CommandInfo) ([]string, error) {
	var env []string
	for _, v := range command.GetEnvironment().GetVariables() {
		if v.GetType() == mesos.Environment_Variable_SECRET {
			return nil, errors.New("environment variable " + v.Name + " is a secret, which this agent cannot resolve")
		}
		env = append(env, v.Name+"="+v.GetValue())
	}
	return env, nil
}

// MergeEnv concatenates environments. If a name occurs more than once, the last
// value takes the first position. It adds a PATH if none exists.
func MergeEnv(lists ...[]string) []string {
	index := map[string]int{}
	var env []string
	for _, entry := range slices.Concat(append([][]string{{"PATH=" + DefaultPath}}, lists...)...) {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue
		}
		if i, ok := index[name]; ok {
			env[i] = entry
			continue
		}
		index[name] = len(env)
		env = append(env, entry)
	}
	return env
}
