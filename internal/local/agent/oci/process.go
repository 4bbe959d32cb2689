package oci

import (
	"errors"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// DefaultPath is the PATH of a process whose environment names none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ImageArgs is the argument vector of a command in an image, by the table of
// Mesos's docker/runtime isolator: a command with a value takes the place of
// the image's own. One without gives other arguments to the image's program,
// which is the first word of its Cmd where it has no entrypoint; Docker would
// take the arguments for the whole command then.
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

// CommandArgs is the argument vector of a command without image. The program is its
// first element, whatever name the arguments give it.
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

// CommandEnv are a command's own environment. Secrets cannot be resolved here.
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

// MergeEnv joins environments; of a name given more than once the last wins, in
// the place of the first. A PATH is added where none names one.
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

// DriverEnv is the environment of an image that needs the driver volume: the
// volume's folders are appended to those that the image's own variables name.
func DriverEnv(image []string) []string {
	path, libraries := DefaultPath, ""
	for _, entry := range image {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
		if value, ok := strings.CutPrefix(entry, "LD_LIBRARY_PATH="); ok {
			libraries = value
		}
	}
	return []string{
		"PATH=" + appendFolders(path, Driver+"/bin"),
		"LD_LIBRARY_PATH=" + appendFolders(libraries, "/usr/local/cuda/compat", Driver+"/lib", Driver+"/lib64"),
	}
}

// appendFolders appends the folders that a colon-separated list lacks.
func appendFolders(list string, folders ...string) string {
	var all []string
	if list != "" {
		all = strings.Split(list, ":")
	}
	for _, f := range folders {
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return strings.Join(all, ":")
}
