package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/docker/docker/api/types/registry"
)

const (
	// dockerHub is the registry of image names without a registry.
	// dockerHubKey is its key in docker's files.
	dockerHub    = "index.docker.io"
	dockerHubKey = "https://index.docker.io/v1/"
	// helperTimeout bounds a credential helper, which may call a remote
	// service.
	helperTimeout = 30 * time.Second
	// maxConfigBytes bounds the size of a config file.
	maxConfigBytes = 1 << 20
)

// lookUpCredentials returns nil if the file does not exist or has no entry for
// the registry.
func (s credentialSource) lookUpCredentials(ctx context.Context, host string) (*registry.AuthConfig, error) {
	config, err := s.readConfig()
	if err != nil || config == nil {
		return nil, err
	}
	helper := config.CredentialsStore
	if own, ok := config.CredentialHelpers[registryKey(host)]; ok {
		helper = own
	}
	if strings.Contains(helper, "/") {
		return nil, fmt.Errorf("credential helper %q is a path: give the NAME of a docker-credential-NAME", helper)
	}
	auth, err := queryCredentials(ctx, config, registryKey(host))
	switch {
	case err != nil && helper != "": // with what the helper printed, which may be a secret
		return nil, fmt.Errorf("run docker-credential-%s: see its output on the agent: echo %s | docker-credential-%s get", helper, registryKey(host), helper)
	case err != nil:
		return nil, err
	}
	known := registry.AuthConfig{Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken}
	if known == (registry.AuthConfig{}) {
		return nil, nil
	}
	known.ServerAddress = registryKey(host)
	return &known, nil
}

// queryCredentials adds a timeout: the library's helpers do not support
// contexts.
func queryCredentials(ctx context.Context, config *configfile.ConfigFile, server string) (types.AuthConfig, error) {
	type answer struct {
		auth types.AuthConfig
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		auth, err := config.GetAuthConfig(server)
		answered <- answer{auth, err}
	}()
	select {
	case a := <-answered:
		return a.auth, a.err
	case <-time.After(helperTimeout):
		return types.AuthConfig{}, fmt.Errorf("no answer for %s", helperTimeout)
	case <-ctx.Done():
		return types.AuthConfig{}, context.Cause(ctx)
	}
}

// readConfig returns nil if the file does not exist.
func (s credentialSource) readConfig() (*configfile.ConfigFile, error) {
	file, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfigBytes))
	if err == nil { // the library accepts an empty file
		err = json.Unmarshal(text, new(json.RawMessage))
	}
	if s.legacy {
		text = fmt.Appendf(nil, `{"auths":%s}`, text)
	}
	config := configfile.New(s.name)
	if err == nil {
		err = config.LoadFromReader(strings.NewReader(string(text)))
	}
	if err != nil {
		return nil, fmt.Errorf("parse it as a docker config.json: %w", err)
	}
	if !s.helpers {
		config.CredentialsStore, config.CredentialHelpers = "", nil
	}
	return config, nil
}

// registryKey returns the key of a registry in docker's files and helpers.
func registryKey(host string) string {
	if host == dockerHub {
		return dockerHubKey
	}
	return host
}
