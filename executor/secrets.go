package executor

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// maxSecretBytes bounds a secret: the kernel's limit for one variable, less its
// name.
const maxSecretBytes = 120 << 10

// resolveSecrets is the task's environment with the values of its secrets. They
// lie in dir, in a folder for each role, since whoever may submit jobs to a
// role may read its secrets. No error holds what a secret does.
func resolveSecrets(t task.TaskSpec, dir string) (map[string]string, error) {
	if len(t.Secrets) == 0 {
		return t.Env, nil
	}
	if dir == "" {
		return nil, errors.New("task wants secrets, and this agent keeps none: its operator sets MESOS_GPU_SECRETS for executors")
	}
	if t.Role == "" || t.Role == "." || t.Role == ".." { // no folder's name
		return nil, fmt.Errorf("task wants secrets, and its resources are those of role %q, which has none", t.Role)
	}
	// A name with a slash is one folder: research/vision is no part of
	// research here.
	folder, err := os.OpenRoot(filepath.Join(dir, strings.NewReplacer("%", "%25", "/", "%2F").Replace(t.Role)))
	if err != nil {
		return nil, fmt.Errorf("open secrets of role %q: %w", t.Role, err)
	}
	defer folder.Close()
	env := maps.Clone(t.Env)
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Secrets)) {
		if env[name], err = readSecret(folder, t.Secrets[name]); err != nil {
			return nil, fmt.Errorf("secret %s: %q of role %q: %w", name, t.Secrets[name], t.Role, err)
		}
	}
	return env, nil
}

// readSecret reads a secret without the line end that editors put after it. A
// link that leads out of the folder is an error.
func readSecret(folder *os.Root, name string) (string, error) {
	if !job.IsSecretName(name) {
		return "", errors.New("that is no secret's name")
	}
	info, err := folder.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is no plain file")
	}
	value, err := folder.ReadFile(name)
	switch {
	case err != nil:
		return "", err
	case len(value) > maxSecretBytes:
		return "", fmt.Errorf("it has more than %d bytes, too many for a variable", maxSecretBytes)
	case bytes.IndexByte(value, 0) >= 0:
		return "", errors.New("it holds a NUL byte, which no variable can")
	}
	return string(bytes.TrimSuffix(value, []byte("\n"))), nil
}
