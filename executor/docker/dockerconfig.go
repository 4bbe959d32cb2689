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
	// hub is the registry of names without one, hubKey its address in docker's
	// files.
	hub    = "index.docker.io"
	hubKey = "https://index.docker.io/v1/"
	// helperTimeout is for a credential helper that asks a service.
	helperTimeout = 30 * time.Second
	// maxConfig is in bytes.
	maxConfig = 1 << 20
)

// login is nil where the file does not exist or does not know the registry.
func (s configSource) login(ctx context.Context, host string) (*registry.AuthConfig, error) {
	config, err := s.read()
	if err != nil || config == nil {
		return nil, err
	}
	helper := config.CredentialsStore
	if own, ok := config.CredentialHelpers[address(host)]; ok {
		helper = own
	}
	if strings.Contains(helper, "/") {
		return nil, fmt.Errorf("credential helper %q is a path: give the NAME of a docker-credential-NAME", helper)
	}
	auth, err := ask(ctx, config, address(host))
	switch {
	case err != nil && helper != "": // with what the helper printed, which may be a secret
		return nil, fmt.Errorf("run docker-credential-%s: see what it says on the agent: echo %s | docker-credential-%s get", helper, address(host), helper)
	case err != nil:
		return nil, err
	}
	known := registry.AuthConfig{Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken}
	if known == (registry.AuthConfig{}) {
		return nil, nil
	}
	known.ServerAddress = address(host)
	return &known, nil
}

// ask waits no longer than helperTimeout: the library's helpers know no ctx.
func ask(ctx context.Context, config *configfile.ConfigFile, server string) (types.AuthConfig, error) {
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

// read returns nil where there is no file.
func (s configSource) read() (*configfile.ConfigFile, error) {
	file, err := s.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxConfig))
	if err == nil { // the library takes an empty file for a config
		err = json.Unmarshal(text, new(json.RawMessage))
	}
	if s.legacy {
		text = fmt.Appendf(nil, `{"auths":%s}`, text)
	}
	config := configfile.New(s.path)
	if err == nil {
		err = config.LoadFromReader(strings.NewReader(string(text)))
	}
	if err != nil {
		return nil, fmt.Errorf("read it as a docker config.json: %w", err)
	}
	if !s.helpers {
		config.CredentialsStore, config.CredentialHelpers = "", nil
	}
	return config, nil
}

// address is how docker's files and helpers name a registry.
func address(host string) string {
	if host == hub {
		return hubKey
	}
	return host
}
