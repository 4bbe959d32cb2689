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

// login is what a pull shows an image's registry. Neither its errors nor its
// remedy hold a secret.
type login struct {
	registry string
	// encoded is as the engine's API wants it, empty for nothing; from is the
	// file it came from.
	encoded, from string
}

// login looks into the sandbox's files, then the operator's. The first that
// knows the image's registry counts. One that is there and cannot be read is
// an error: people believe it to be heard.
func (d *Runtime) login(ctx context.Context, image string) (login, error) {
	ref, err := name.ParseReference(image, name.WeakValidation)
	if err != nil {
		return login{}, nil // the engine says so better
	}
	l := login{registry: ref.Context().RegistryStr()}
	for _, source := range d.configs() {
		auth, err := source.login(ctx, l.registry)
		if err == nil && auth != nil {
			l.encoded, err = registry.EncodeAuthConfig(*auth)
		}
		if err != nil {
			return login{}, fmt.Errorf("find credentials for registry %s in %s: %w", l.registry, source.path, err)
		}
		if l.encoded != "" {
			l.from = source.path
			return l, nil
		}
	}
	return l, nil
}

// remedy is for people whose pull was refused.
func (l login) remedy() string {
	if l.from != "" {
		return fmt.Sprintf("registry %s does not take the credentials of %s", l.registry, l.from)
	}
	return fmt.Sprintf("no credentials for registry %s are known here: name a docker config.json that has them in MESOS_GPU_DOCKER_CONFIG on the agent, or have it fetched to %s in the sandbox", l.registry, sandboxConfig)
}

// denied tells a registry's refusal. The engine has no code for it: it passes
// on what registries say, each its own way.
func denied(err error) bool {
	if err == nil {
		return false
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"unauthorized", "no basic auth credentials", "authentication required", "denied"},
		func(word string) bool { return strings.Contains(text, word) })
}

// configSource is a file that may hold credentials.
type configSource struct {
	path   string
	open   func() (*os.File, error)
	legacy bool
	// helpers says that it may name programs of the agent to ask.
	helpers bool
}

func (d *Runtime) configs() []configSource {
	inSandbox := func(name string) configSource {
		return configSource{
			path: filepath.Join(d.Sandbox, name), legacy: name == legacyConfig,
			open: func() (*os.File, error) { return openIn(d.Sandbox, name) },
		}
	}
	sources := []configSource{inSandbox(sandboxConfig), inSandbox(legacyConfig)}
	if d.DockerConfig != "" {
		sources = append(sources, configSource{path: d.DockerConfig, helpers: true, open: func() (*os.File, error) {
			file, err := os.Open(d.DockerConfig)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, errors.New("no such file: MESOS_GPU_DOCKER_CONFIG names it")
			}
			return file, err
		}})
	}
	return sources
}

// openIn opens a regular file of the sandbox. An archive may have made a link
// there, which leads to other files of the sandbox only, or a pipe, for which
// nobody waits.
func openIn(sandbox, name string) (*os.File, error) {
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
