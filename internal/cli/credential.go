package cli

import (
	"github.com/spf13/pflag"
)

// apiCredential configures authentication to the scheduler's API. A token comes from a
// file or the environment, never from the command line, which other users can read.
type apiCredential struct{ tokenFile, ca string }

func (c *apiCredential) Register(f *pflag.FlagSet, getenv func(string) string) {
	f.StringVar(&c.tokenFile, "token-file", getenv("MESOS_GPU_TOKEN_FILE"), "file with the token for the scheduler; also MESOS_GPU_TOKEN_FILE, or the token itself in MESOS_GPU_TOKEN")
	f.StringVar(&c.ca, "ca", getenv("MESOS_GPU_CA"), "certificates to trust for the scheduler, instead of the system's; also MESOS_GPU_CA")
}
