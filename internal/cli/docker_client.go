package cli

import (
	"github.com/docker/docker/client"
)

// NewDockerClient is a client of this machine's Docker engine, as DOCKER_HOST says.
func NewDockerClient() (*client.Client, error) {
	return client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
}
