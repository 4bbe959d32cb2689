package marathon

import "slices"

// Network modes.
const (
	HostMode      = "host"
	ContainerMode = "container"
	BridgeMode    = "container/bridge"
)

// Network is a network that the task joins.
type Network struct {
	Name string `json:"name,omitempty"`
	// Mode is HostMode, ContainerMode or BridgeMode.
	Mode   string            `json:"mode"`
	Labels map[string]string `json:"labels,omitempty"`
}

// PortDefinition is a port in the host's network.
type PortDefinition struct {
	Port     int               `json:"port"`
	Labels   map[string]string `json:"labels,omitempty"`
	Name     string            `json:"name,omitempty"`
	Protocol string            `json:"protocol"`
}

// PortMapping maps a port of the container's network to a host port.
type PortMapping struct {
	ContainerPort int `json:"containerPort"`
	// HostPort is nil for a port that is reachable only in the container
	// network. 0 means any host port.
	HostPort     *int              `json:"hostPort,omitempty"`
	ServicePort  int               `json:"servicePort"`
	Name         string            `json:"name,omitempty"`
	Protocol     string            `json:"protocol"`
	Labels       map[string]string `json:"labels"`
	NetworkNames []string          `json:"networkNames,omitempty"`
}

// IPAddress is the old form of Networks, before Marathon 1.5.
type IPAddress struct {
	Discovery   *Discovery        `json:"discovery,omitempty"`
	Groups      []string          `json:"groups,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	NetworkName string            `json:"networkName,omitempty"`
}

// Discovery is the old form of Container.PortMappings, within IPAddress.
type Discovery struct {
	Ports []DiscoveryPort `json:"ports,omitempty"`
}

// DiscoveryPort is a port of a task with an IP address of its own.
type DiscoveryPort struct {
	Number   int               `json:"number"`
	Name     string            `json:"name"`
	Protocol string            `json:"protocol"`
	Labels   map[string]string `json:"labels,omitempty"`
}

// UsesHostNetwork reports whether the app uses its agent's network.
func (a *App) UsesHostNetwork() bool { return usesHostNetwork(a.Networks) }

// usesHostNetwork is also true without networks: the host's is the default.
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
