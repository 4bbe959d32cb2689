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
)

// The sandbox's files that the docker client knows, as Mesos's own executor
// has them: fetched by the executor's URIs.
const (
	sandboxConfig = ".docker/config.json"
	legacyConfig  = ".dockercfg"
)

// registryCredentials is what a pull shows an image's registry. Neither its errors nor its
// remedy hold a secret.
type registryCredentials struct {
	registry string
	// encoded is as the engine's API wants it, empty for nothing; from is the
	// file it came from.
	encoded, sourcePath string
}

// findCredentials looks into the sandbox's files, then the operator's. The first that
// knows the image's registry counts. One that is there and cannot be read is
// an error: people believe it to be heard.
func (d *EngineRuntime) findCredentials(ctx context.Context, image string) (registryCredentials, error) {
	ref, err := name.ParseReference(image, name.WeakValidation)
	if err != nil {
		return registryCredentials{}, nil // the engine says so better
	}
	l := registryCredentials{registry: ref.Context().RegistryStr()}
	for _, source := range d.credentialSources() {
		auth, err := source.lookUpCredentials(ctx, l.registry)
		if err == nil && auth != nil {
			l.encoded, err = registry.EncodeAuthConfig(*auth)
		}
		if err != nil {
			return registryCredentials{}, fmt.Errorf("find credentials for registry %s in %s: %w", l.registry, source.path, err)
		}
		if l.encoded != "" {
			l.sourcePath = source.path
			return l, nil
		}
	}
	return l, nil
}

// deniedAdvice is for people whose pull was refused.
func (l registryCredentials) deniedAdvice() string {
	if l.sourcePath != "" {
		return fmt.Sprintf("registry %s does not take the credentials of %s", l.registry, l.sourcePath)
	}
	return fmt.Sprintf("no credentials for registry %s are known here: name a docker config.json that has them in MESOS_GPU_DOCKER_CONFIG on the agent, or have it fetched to %s in the sandbox", l.registry, sandboxConfig)
}

// isAccessDenied tells a registry's refusal. The engine has no code for it: it passes
// on what registries say, each its own way.
func isAccessDenied(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"unauthorized", "no basic auth credentials", "authentication required", "denied"},
		func(word string) bool { return strings.Contains(text, word) })
}

// credentialSource is a file that may hold credentials.
type credentialSource struct {
	path   string
	open   func() (*os.File, error)
	legacy bool
	// helpers says that it may name programs of the agent to ask.
	helpers bool
}

func (d *EngineRuntime) credentialSources() []credentialSource {
	inSandbox := func(name string) credentialSource {
		return credentialSource{
			path: filepath.Join(d.Sandbox, name), legacy: name == legacyConfig,
			open: func() (*os.File, error) { return openSandboxFile(d.Sandbox, name) },
		}
	}
	sources := []credentialSource{inSandbox(sandboxConfig), inSandbox(legacyConfig)}
	if d.DockerConfig != "" {
		sources = append(sources, credentialSource{path: d.DockerConfig, helpers: true, open: func() (*os.File, error) {
			file, err := os.Open(d.DockerConfig)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, errors.New("no such file: MESOS_GPU_DOCKER_CONFIG names it")
			}
			return file, err
		}})
	}
	return sources
}

// openSandboxFile opens a regular file of the sandbox. An archive may have made a link
// there, which leads to other files of the sandbox only, or a pipe, for which
// nobody waits.
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
		return nil, errors.Join(err, errors.New("it is no regular file"))
	}
	return file, nil
}
