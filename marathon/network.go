package marathon

import "slices"

// The network modes, as Marathon writes them.
const (
	HostMode      = "host"
	ContainerMode = "container"
	BridgeMode    = "container/bridge"
)

// Network is one that the task joins.
type Network struct {
	Name string `json:"name,omitempty"`
	// Mode is HostMode, ContainerMode or BridgeMode.
	Mode   string            `json:"mode"`
	Labels map[string]string `json:"labels,omitempty"`
}

// PortDefinition is a port of the host's network.
type PortDefinition struct {
	Port     int               `json:"port"`
	Labels   map[string]string `json:"labels,omitempty"`
	Name     string            `json:"name,omitempty"`
	Protocol string            `json:"protocol"`
}

// PortMapping is a port of a container's network, and the host's port that
// leads there.
type PortMapping struct {
	ContainerPort int `json:"containerPort"`
	// HostPort is nil for a port that only the container network reaches, 0
	// for any.
	HostPort     *int              `json:"hostPort,omitempty"`
	ServicePort  int               `json:"servicePort"`
	Name         string            `json:"name,omitempty"`
	Protocol     string            `json:"protocol"`
	Labels       map[string]string `json:"labels"`
	NetworkNames []string          `json:"networkNames,omitempty"`
}

// IPAddress is the form of Networks before Marathon 1.5.
type IPAddress struct {
	Discovery   *Discovery        `json:"discovery,omitempty"`
	Groups      []string          `json:"groups,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	NetworkName string            `json:"networkName,omitempty"`
}

// Discovery is the form of Container.PortMappings that goes with IPAddress.
type Discovery struct {
	Ports []DiscoveryPort `json:"ports,omitempty"`
}

// DiscoveryPort is one port that a task with its own address listens on.
type DiscoveryPort struct {
	Number   int               `json:"number"`
	Name     string            `json:"name"`
	Protocol string            `json:"protocol"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// UsesHostNetwork reports whether the app shares its agent's network.
func (a *App) UsesHostNetwork() bool { return usesHostNetwork(a.Networks) }

// usesHostNetwork holds for no networks too: the host's is the default.
func usesHostNetwork(networks []Network) bool {
	return len(networks) == 0 || hasNetworkMode(networks, HostMode)
}

func hasNetworkMode(networks []Network, mode string) bool {
	return slices.ContainsFunc(networks, func(n Network) bool { return n.Mode == mode })
}

func countNetworks(networks []Network, mode string) int {
	n := 0
	for _, net := range networks {
		if net.Mode == mode {
			n++
		}
	}
	return n
}
