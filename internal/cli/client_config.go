package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"mesos-gpu/job/jobfile"
)

// clientConfig is the user's configuration file. The settings of a context replace those of the file itself.
type clientConfig struct {
	clientContext `yaml:",inline"`
	// Context is the name of the context that is used without --context.
	Context  string                   `yaml:"context"`
	Contexts map[string]clientContext `yaml:"contexts"`
}

// clientContext is how to reach a scheduler, and what jobs have there by default.
type clientContext struct {
	API       string `yaml:"api"`
	CA        string `yaml:"ca"`
	TokenFile string `yaml:"token_file"`
	Role      string `yaml:"role"`
	// Job has keys of job files that jobs have if they do not set them.
	Job yaml.Node `yaml:"job"`
}

// clientConfigKeys are the keys of a context; the file has two more.
var clientConfigKeys = []string{"api", "ca", "token_file", "role", "job"}

// configPath returns the path of the user's configuration file, or "".
func configPath(getenv func(string) string) string {
	if path := getenv("MESOS_GPU_CONFIG"); path != "" {
		return path
	}
	if dir := getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "mesos-gpu", "config.yaml")
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".config", "mesos-gpu", "config.yaml")
	}
	return ""
}

// readClientConfig returns the settings of the file at path with those of a context, "" for the one that the file selects.
// A file that does not exist has none.
func readClientConfig(path, context string) (c clientContext, err error) {
	text, err := os.ReadFile(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		if context != "" {
			return c, &UsageError{fmt.Errorf("--context %s: there is no %s, which defines contexts", context, path)}
		}
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("client configuration: %w", err)
	}
	file, err := parseClientConfig(text)
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	c = file.clientContext
	if context == "" {
		context = file.Context
	}
	if context != "" {
		one, ok := file.Contexts[context]
		if !ok {
			return c, &UsageError{fmt.Errorf("%s: there is no context %q: the contexts are %s",
				path, context, strings.Join(slices.Sorted(maps.Keys(file.Contexts)), ", "))}
		}
		c = c.replacedBy(one)
	}
	for _, file := range []*string{&c.CA, &c.TokenFile} {
		if rest, ok := strings.CutPrefix(*file, "~/"); ok {
			home, err := os.UserHomeDir()
			if err != nil {
				return c, fmt.Errorf("%s: %s: %w", path, *file, err)
			}
			*file = filepath.Join(home, rest)
		}
	}
	return c, nil
}

func (c clientContext) replacedBy(one clientContext) clientContext {
	for _, setting := range []struct{ to, from *string }{{&c.API, &one.API}, {&c.CA, &one.CA}, {&c.TokenFile, &one.TokenFile}, {&c.Role, &one.Role}} {
		if *setting.from != "" {
			*setting.to = *setting.from
		}
	}
	if !one.Job.IsZero() {
		c.Job = one.Job
	}
	return c
}

func parseClientConfig(text []byte) (c clientConfig, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return c, err
	}
	if err := checkConfigKeys(doc.Content[0], append(slices.Clone(clientConfigKeys), "context", "contexts")); err != nil {
		return c, err
	}
	if err := doc.Decode(&c); err != nil {
		return c, err
	}
	for pairs := doc.Content[0].Content; len(pairs) > 1; pairs = pairs[2:] {
		for contexts := pairs[1].Content; pairs[0].Value == "contexts" && len(contexts) > 1; contexts = contexts[2:] {
			if err := checkConfigKeys(contexts[1], clientConfigKeys); err != nil {
				return c, fmt.Errorf("context %s: %w", contexts[0].Value, err)
			}
		}
	}
	return c, nil
}

func checkConfigKeys(n *yaml.Node, known []string) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: want keys such as %s", n.Line, strings.Join(known, ", "))
	}
	if key, err := jobfile.CheckKeys(n, known); err != nil {
		return fmt.Errorf("line %d: %w", key.Line, err)
	}
	return nil
}

// RegisterContext adds the flag that selects a context of the configuration file.
func (a *App) RegisterContext(f *pflag.FlagSet) {
	f.StringVar(&a.contextName, "context", a.Getenv("MESOS_GPU_CONTEXT"),
		"context of the configuration file, ~/.config/mesos-gpu/config.yaml; or set MESOS_GPU_CONTEXT")
	a.connectionFlags = f
}

// readConfig reads the configuration file once. Flags and variables of the environment take precedence over it.
func (a *App) readConfig() (clientContext, error) {
	switch {
	case a.config != nil:
		return *a.config, nil
	case a.Getenv == nil:
		return clientContext{}, nil
	}
	c, err := readClientConfig(configPath(a.Getenv), a.contextName)
	if err != nil {
		return c, err
	}
	a.config = &c
	isSet := func(flag, variable string) bool {
		return a.Getenv(variable) != "" || a.connectionFlags != nil && a.connectionFlags.Changed(flag)
	}
	if c.API != "" && !isSet("api", "MESOS_GPU_API") {
		a.APIAddress = c.API
	}
	if c.CA != "" && !isSet("ca", "MESOS_GPU_CA") {
		a.Credential.ca = c.CA
	}
	if c.TokenFile != "" && !isSet("token-file", "MESOS_GPU_TOKEN_FILE") && a.Getenv("MESOS_GPU_TOKEN") == "" {
		a.Credential.tokenFile = c.TokenFile
	}
	return c, nil
}

// JobDefaults returns the keys that jobs have if they do not set them: those of the configuration file, and the role of
// MESOS_GPU_ROLE or of the file.
func (a *App) JobDefaults() (*jobfile.Defaults, error) {
	c, err := a.readConfig()
	if err != nil || a.Getenv == nil {
		return nil, err
	}
	role := cmp.Or(a.Getenv("MESOS_GPU_ROLE"), c.Role)
	d, err := jobfile.NewDefaults(&c.Job, role)
	if err != nil {
		return nil, fmt.Errorf("%s: job: %w", configPath(a.Getenv), err)
	}
	return d, nil
}
