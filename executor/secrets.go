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

// maxSecretBytes bounds a secret: the kernel's limit for one variable, minus
// its name.
const maxSecretBytes = 120 << 10

// resolveSecrets returns the task's environment with the values of its
// secrets, and the mounts of those that are files. Errors never contain a
// secret's value.
func resolveSecrets(t task.TaskSpec, dir string) (map[string]string, []task.HostMount, error) {
	if len(t.Secrets) == 0 && len(t.SecretFiles) == 0 {
		return t.Env, nil, nil
	}
	folder, err := openRoleSecrets(t.Role, dir)
	if err != nil {
		return nil, nil, err
	}
	defer folder.Close()
	env := maps.Clone(t.Env)
	if env == nil {
		env = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Secrets)) {
		if env[name], err = readSecret(folder, t.Secrets[name]); err != nil {
			return nil, nil, fmt.Errorf("secret %s: %q of role %q: %w", name, t.Secrets[name], t.Role, err)
		}
	}
	var mounts []task.HostMount
	for _, target := range slices.Sorted(maps.Keys(t.SecretFiles)) {
		source, err := findSecret(folder, t.SecretFiles[target])
		if err != nil {
			return nil, nil, fmt.Errorf("secret %s: %q of role %q: %w", target, t.SecretFiles[target], t.Role, err)
		}
		mounts = append(mounts, task.HostMount{Source: source, Target: target, ReadOnly: true})
	}
	return env, mounts, nil
}

// resolvePullSecret returns the path of the secret with the task's registry
// credentials, or "" if the task has none.
func resolvePullSecret(t task.TaskSpec, dir string) (string, error) {
	if t.PullSecret == "" {
		return "", nil
	}
	folder, err := openRoleSecrets(t.Role, dir)
	if err != nil {
		return "", err
	}
	defer folder.Close()
	file, err := findSecret(folder, t.PullSecret)
	if err != nil {
		return "", fmt.Errorf("pull_secret: %q of role %q: %w", t.PullSecret, t.Role, err)
	}
	return file, nil
}

// openRoleSecrets opens the folder with the secrets of a role. Each role has
// its own in dir, because every user who may submit jobs to a role may read its
// secrets.
func openRoleSecrets(role, dir string) (*os.Root, error) {
	if dir == "" {
		return nil, errors.New("task uses secrets, and this agent has none: set MESOS_GPU_SECRETS for its executors")
	}
	if role == "" || role == "." || role == ".." { // no folder's name
		return nil, fmt.Errorf("task uses secrets, and its resources have role %q, which cannot have any", role)
	}
	// The slash of a role's name is escaped, so each role is one folder:
	// research does not contain the secrets of research/vision.
	folder, err := os.OpenRoot(filepath.Join(dir, strings.NewReplacer("%", "%25", "/", "%2F").Replace(role)))
	if err != nil {
		return nil, fmt.Errorf("open secrets of role %q: %w", role, err)
	}
	return folder, nil
}

// findSecret returns the path of a secret's file without links. It rejects
// links that lead out of the folder. The file itself is mounted: a copy would
// have to be removed, and could be read through the sandbox.
func findSecret(folder *os.Root, name string) (string, error) {
	if err := checkSecretFile(folder, name); err != nil {
		return "", err
	}
	file, err := filepath.EvalSymlinks(filepath.Join(folder.Name(), name))
	if err != nil {
		return "", err
	}
	return filepath.Abs(file)
}

// checkSecretFile returns an error unless the secret is a regular file of the
// folder.
func checkSecretFile(folder *os.Root, name string) error {
	if !job.IsSecretName(name) {
		return errors.New("not a valid secret name")
	}
	info, err := folder.Stat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	return nil
}

// readSecret returns the content of a secret's file without the trailing
// newline that editors add. It rejects links that lead out of the folder.
func readSecret(folder *os.Root, name string) (string, error) {
	if err := checkSecretFile(folder, name); err != nil {
		return "", err
	}
	value, err := folder.ReadFile(name)
	switch {
	case err != nil:
		return "", err
	case len(value) > maxSecretBytes:
		return "", fmt.Errorf("it has more than %d bytes, too many for a variable", maxSecretBytes)
	case bytes.IndexByte(value, 0) >= 0:
		return "", errors.New("it has a NUL byte, which a variable cannot contain")
	}
	return string(bytes.TrimSuffix(value, []byte("\n"))), nil
}
