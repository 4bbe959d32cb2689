package cli

import (
	"github.com/spf13/pflag"
)

// apiCredential configures authentication to the scheduler's API. A token comes from a
// file or the environment, never from the command line, which other users can read.
type apiCredential struct{ tokenFile, ca string }

// TokenAdvice says how a user names a token.
const TokenAdvice = "name a token by --token-file, MESOS_GPU_TOKEN_FILE or MESOS_GPU_TOKEN"

func (c *apiCredential) Register(f *pflag.FlagSet, getenv func(string) string) {
	f.StringVar(&c.tokenFile, "token-file", getenv("MESOS_GPU_TOKEN_FILE"),
		"file with the token for the scheduler; or set MESOS_GPU_TOKEN_FILE, or MESOS_GPU_TOKEN to the token")
	f.StringVar(&c.ca, "ca", getenv("MESOS_GPU_CA"), "CA certificates for the scheduler, instead of the system's; or set MESOS_GPU_CA")
}
