package cli

import (
	"github.com/docker/docker/client"
)

// NewDockerClient returns a client of this machine's Docker engine. It honors
// DOCKER_HOST.
func NewDockerClient() (*client.Client, error) {
	return client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
}
