package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker/docker/api/types/registry"
	"github.com/google/go-containerregistry/pkg/name"

	"mesos-gpu/executor/task"
)

// The docker client's files in the sandbox. As with Mesos's own executor, the
// executor's URIs may fetch them.
const (
	sandboxConfig = ".docker/config.json"
	legacyConfig  = ".dockercfg"
)

// registryCredentials are the credentials for one image's registry. Errors and
// advice never contain a secret.
type registryCredentials struct {
	registry string
	// encoded is in the form of the engine's API; empty if there are none.
	// source is the file or the secret that they come from.
	encoded, source string
}

// findCredentials searches the task's pull secret, the sandbox's files, then the
// operator's. The first one with an entry for the image's registry is used. A file
// that exists and cannot be read is an error, because its owner expects it to be
// used.
func (rt *EngineRuntime) findCredentials(ctx context.Context, t task.TaskSpec) (registryCredentials, error) {
	ref, err := name.ParseReference(t.Image, name.WeakValidation)
	if err != nil {
		return registryCredentials{}, nil // the engine reports the invalid name
	}
	l := registryCredentials{registry: ref.Context().RegistryStr()}
	for _, source := range rt.credentialSources(t) {
		auth, err := source.lookUpCredentials(ctx, l.registry)
		if err == nil && auth != nil {
			l.encoded, err = registry.EncodeAuthConfig(*auth)
		}
		if err != nil {
			return registryCredentials{}, fmt.Errorf("find credentials for registry %s in %s: %w", l.registry, source.name, err)
		}
		if l.encoded != "" {
			l.source = source.name
			return l, nil
		}
	}
	return l, nil
}

// deniedAdvice returns what to do about a denied pull.
func (l registryCredentials) deniedAdvice() string {
	if l.source != "" {
		return fmt.Sprintf("registry %s rejects the credentials of %s", l.registry, l.source)
	}
	return fmt.Sprintf("no credentials for registry %s: set pull_secret, set MESOS_GPU_DOCKER_CONFIG on the agent to a docker "+
		"config.json that has them, or fetch one to %s in the sandbox",
		l.registry, sandboxConfig)
}

// isAccessDenied reports whether a registry denied access. The engine has no
// error code for it: it passes the registries' various texts on.
func isAccessDenied(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"unauthorized", "no basic auth credentials", "authentication required", "denied"},
		func(word string) bool { return strings.Contains(text, word) })
}

// credentialSource is a file that may have credentials.
type credentialSource struct {
	// name is its path, or describes a secret.
	name   string
	open   func() (*os.File, error)
	legacy bool
	// helpers allows the file to name credential helper programs on the agent.
	helpers bool
}

func (rt *EngineRuntime) credentialSources(t task.TaskSpec) []credentialSource {
	inSandbox := func(name string) credentialSource {
		return credentialSource{
			name: filepath.Join(rt.Sandbox, name), legacy: name == legacyConfig,
			open: func() (*os.File, error) { return openSandboxFile(rt.Sandbox, name) },
		}
	}
	var sources []credentialSource
	if t.PullConfig != "" {
		sources = append(sources, credentialSource{
			name: fmt.Sprintf("pull_secret %q", t.PullSecret),
			open: func() (*os.File, error) { return os.Open(t.PullConfig) },
		})
	}
	sources = append(sources, inSandbox(sandboxConfig), inSandbox(legacyConfig))
	if rt.DockerConfig != "" {
		sources = append(sources, credentialSource{name: rt.DockerConfig, helpers: true, open: func() (*os.File, error) {
			file, err := os.Open(rt.DockerConfig)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, errors.New("no such file, set by MESOS_GPU_DOCKER_CONFIG")
			}
			return file, err
		}})
	}
	return sources
}

// openSandboxFile opens a regular file in the sandbox. It follows no link out
// of the sandbox, and does not block on a pipe.
func openSandboxFile(sandbox, name string) (*os.File, error) {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	return file, nil
}
