package jobs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/docker/cli/pkg/kvfile"
	"github.com/spf13/pflag"

	"mesos-gpu/internal/cli"
)

// envFiles are the files of --env-file, in the syntax of docker's flag.
type envFiles []string

func (f *envFiles) addFlag(set *pflag.FlagSet) {
	set.StringArrayVar((*[]string)(f), "env-file", nil, "file with lines NAME=value, or NAME for its value here; # starts a comment, and --env takes precedence")
}

// assignments returns the variables of the files and then those of --env, with the values of variables that are given by
// name only. A name of --env without a value stays, and is reported as a mistake later.
func (f *envFiles) assignments(flags []string, getenv func(string) string) ([]string, error) {
	var all []string
	for _, path := range *f {
		var missing []error
		lines, err := readEnvFile(path, func(name string) (string, bool) {
			value := getenv(name)
			if value == "" {
				missing = append(missing, fmt.Errorf("%s has no value here: write NAME=value", name))
			}
			return value, value != ""
		})
		if err := errors.Join(append(missing, err)...); err != nil {
			return nil, &cli.UsageError{Err: fmt.Errorf("--env-file %s: %w", path, err)}
		}
		all = append(all, lines...)
	}
	for _, text := range flags {
		if value := getenv(text); value != "" && !strings.Contains(text, "=") {
			text += "=" + value
		}
		all = append(all, text)
	}
	return all, nil
}

func readEnvFile(path string, lookup func(name string) (string, bool)) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return kvfile.ParseFromReader(file, lookup)
}
