package marathon

import (
	"net/url"
	"slices"
	"strings"
)

// migrateOldForms converts the forms of older Marathon versions to those of the newest.
// The order is Marathon's: ports depend on networks.
func (norm *appNormalizer) migrateOldForms() {
	a := norm.app
	norm.migrateURIs()
	norm.migrateNetworks()
	if a.Container == nil && a.IPAddress != nil {
		a.Container = &Container{Type: MesosType, Volumes: []Volume{}}
	}
	if a.PortDefinitions == nil && a.Ports != nil {
		a.PortDefinitions = toPortDefinitions(a.Ports)
	}
	norm.migratePorts()
	a.Ports, a.IPAddress = nil, nil
	norm.indexHealthChecks()
}

// archiveExtensions are the extensions by which Mesos recognises an archive.
func archiveExtensions() []string {
	return []string{".tar", ".tar.gz", ".tar.bz2", ".tar.xz", ".gz", ".tgz", ".tbz2", ".txz", ".zip"}
}

func (norm *appNormalizer) migrateURIs() {
	a := norm.app
	if len(a.Fetch) == 0 {
		for _, uri := range a.URIs {
			a.Fetch = append(a.Fetch, Artifact{URI: uri, Extract: isArchive(uri)})
		}
	}
	a.URIs = nil
}

func isArchive(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && slices.ContainsFunc(archiveExtensions(), func(end string) bool { return strings.HasSuffix(u.Path, end) })
}

// migrateNetworks converts ipAddress and container.docker.network.
func (norm *appNormalizer) migrateNetworks() {
	a, docker := norm.app, ""
	if a.Container != nil && a.Container.Docker != nil {
		docker = a.Container.Docker.Network
		a.Container.Docker.Network = ""
	}
	if len(a.Networks) > 0 || docker == "" && a.IPAddress == nil {
		return
	}
	net := Network{Mode: ContainerMode}
	if ip := a.IPAddress; ip != nil {
		net.Name, net.Labels = ip.NetworkName, ip.Labels
	}
	if net.Name != "" && docker != "" && docker != "USER" || len(net.Labels) > 0 && docker == "HOST" {
		norm.addError("/ipAddress", "container.docker.network is %s, which has no name, and labels only in BRIDGE mode", docker)
	}
	switch {
	case docker == "HOST":
		net = Network{Mode: HostMode}
	case docker == "BRIDGE":
		net.Mode, net.Name = BridgeMode, ""
	case docker == "NONE":
		norm.addError("/container/docker/network", "NONE has no form in networks: there is no container without a network")
		return
	case docker == "" && net.Name != "" && net.Name == norm.settings.BridgeNetwork:
		net.Mode, net.Name = BridgeMode, ""
	}
	a.Networks = []Network{net}
}

func toPortDefinitions(ports []int) []PortDefinition {
	all := []PortDefinition{}
	for _, p := range ports {
		all = append(all, PortDefinition{Port: p, Protocol: portProtocols()[0]})
	}
	return all
}

// migratePorts gives an app in the host's network port definitions and any other app port
// mappings, and one port if the definition has none.
func (norm *appNormalizer) migratePorts() {
	a := norm.app
	if a.Container != nil {
		norm.migrateMappings(a.Container)
	}
	if usesHostNetwork(a.Networks) {
		if c := a.Container; c != nil {
			if len(c.PortMappings) > 0 {
				norm.addWarning("/container/portMappings", "there are no port mappings in the host's network: use portDefinitions")
			}
			c.PortMappings = nil // as in Marathon: they, and the empty list of Marathon 1.4, do not hide the definitions
		}
		if a.PortDefinitions == nil {
			a.PortDefinitions = []PortDefinition{{Name: "default", Protocol: portProtocols()[0]}}
		}
		return
	}
	if a.Container == nil {
		a.Container = &Container{Type: MesosType, Volumes: []Volume{}}
	}
	if a.Container.PortMappings == nil {
		a.Container.PortMappings = []PortMapping{newPortMapping("default")}
	}
	norm.mapDefinitions(a.Container)
	a.PortDefinitions = nil
}

func newPortMapping(name string) PortMapping {
	return PortMapping{Name: name, Protocol: portProtocols()[0], Labels: map[string]string{}}
}

// migrateMappings converts container.docker.portMappings and ipAddress.discovery.ports.
func (norm *appNormalizer) migrateMappings(c *Container) {
	if d := c.Docker; d != nil && d.PortMappings != nil {
		if c.PortMappings == nil {
			c.PortMappings = d.PortMappings
		} else if len(d.PortMappings) > 0 {
			norm.addError("/container/docker/portMappings", "it excludes container.portMappings: leave it out")
		}
		d.PortMappings = nil
	}
	ip := norm.app.IPAddress
	if c.Type != MesosType || ip == nil || ip.Discovery == nil || len(ip.Discovery.Ports) == 0 {
		return
	}
	if c.PortMappings != nil {
		norm.addError("/ipAddress/discovery/ports", "it excludes container.portMappings: leave it out")
		return
	}
	for _, p := range ip.Discovery.Ports {
		m := newPortMapping(p.Name)
		m.ContainerPort, m.Protocol = p.Number, p.Protocol
		if p.Labels != nil {
			m.Labels = p.Labels
		}
		c.PortMappings = append(c.PortMappings, m)
	}
}

// mapDefinitions converts port definitions outside the host's network to port mappings.
// Their numbers become service ports, unless the mapping has another one. Names and labels
// are dropped. Marathon drops the numbers too.
func (norm *appNormalizer) mapDefinitions(c *Container) {
	for i, d := range norm.app.PortDefinitions {
		if i == len(c.PortMappings) {
			c.PortMappings = append(c.PortMappings, newPortMapping(""))
		}
		m := &c.PortMappings[i]
		if m.ServicePort == 0 {
			m.ServicePort = d.Port
		}
		if d.Name != "" && d.Name != m.Name || len(d.Labels) > 0 || d.Port != m.ServicePort {
			norm.addWarning(elementPath("/portDefinitions", i), "it is for the host's network: write its name, labels and port in container.portMappings")
		}
	}
}

// indexHealthChecks makes checks without a port use the first one.
func (norm *appNormalizer) indexHealthChecks() {
	if norm.app.portCount() == 0 {
		return
	}
	for i := range norm.app.HealthChecks {
		h := &norm.app.HealthChecks[i]
		if h.Protocol != commandProtocol && h.Port == nil && h.PortIndex == nil {
			h.PortIndex = new(int)
		}
	}
}

// portCount returns the number of container ports, or else of host ports.
func (a *App) portCount() int {
	if a.Container != nil && a.Container.PortMappings != nil {
		return len(a.Container.PortMappings)
	}
	return len(a.PortDefinitions)
}
