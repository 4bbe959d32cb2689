package marathon

import (
	"fmt"
	"slices"
	"strings"
)

func (norm *appNormalizer) checkNetworks() {
	nets := norm.app.Networks
	named := map[string]bool{}
	for _, n := range nets {
		const place = "/networks" // as in Marathon, without the index
		switch {
		case n.Mode == HostMode && (n.Name != "" || len(n.Labels) > 0):
			norm.addError(place, "the host's network has no name and no labels")
		case n.Mode == BridgeMode && n.Name != "":
			norm.addError(place, "the bridge has no name")
		case n.Mode == ContainerMode && n.Name == "" && norm.settings.DefaultNetwork == "":
			norm.addError(place, "a container network needs a name: the scheduler has no default")
		}
		if n.Mode == ContainerMode && named[n.Name] {
			norm.addError("/networks", "%q is given twice", n.Name)
		}
		named[n.Name] = true
	}
	containers := countNetworks(nets, ContainerMode)
	if len(nets) > 1 && containers < len(nets) {
		norm.addError("/networks", "an app has the host's network, or the bridge, or container networks")
	}
	if containers > 1 && norm.app.Container != nil && norm.app.Container.Type == DockerType {
		norm.addError("/", "a DOCKER container joins one container network, not %d", containers)
	}
}

func (norm *appNormalizer) checkPorts() {
	a := norm.app
	var names []string
	var ports []int
	for _, d := range a.PortDefinitions {
		names, ports = append(names, d.Name), append(ports, d.Port)
	}
	norm.checkUniqueStrings("/portDefinitions", names)
	if p := firstDuplicate(ports); p != 0 {
		norm.addError("/portDefinitions", "port %d is given twice", p)
	}
	if a.Container == nil {
		return
	}
	norm.checkUniqueNames("/container/portMappings", a.Container.PortMappings)
	var networks []string
	for _, n := range a.Networks {
		networks = append(networks, n.Name)
	}
	for i, m := range a.Container.PortMappings {
		place := elementPath("/container/portMappings", i)
		for j, n := range m.NetworkNames {
			if !slices.Contains(networks, n) {
				norm.addError(elementPath(place+"/networkNames", j), "%q is not one of the app's networks: %s", n, strings.Join(networks, ", "))
			}
		}
		if m.HostPort != nil && countNetworks(a.Networks, ContainerMode) > 1 && len(m.NetworkNames) != 1 {
			norm.addError(place, "a port with a hostPort names one of the app's networks in networkNames")
		}
	}
}

func (norm *appNormalizer) checkUniqueNames(place string, mappings []PortMapping) {
	var names []string
	for _, m := range mappings {
		names = append(names, m.Name)
	}
	norm.checkUniqueStrings(place, names)
}

func (norm *appNormalizer) checkUniqueStrings(place string, names []string) {
	for i, n := range names {
		if n != "" && slices.Contains(names[:i], n) {
			norm.addError(place, "two ports have the name %q", n)
		}
	}
}

// HostPortNames returns the names of an app's host ports, in their order. A readiness
// check, which comes from another host, may refer to one of them.
func (a *App) HostPortNames() []string {
	var names []string
	if a.Container != nil && a.Container.PortMappings != nil {
		for _, m := range a.Container.PortMappings {
			if m.HostPort != nil || hasNetworkMode(a.Networks, BridgeMode) { // in bridge mode the default is any port
				names = append(names, m.Name)
			}
		}
		return names
	}
	for _, d := range a.PortDefinitions {
		names = append(names, d.Name)
	}
	return names
}

func describeNames(words []string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	if len(words) == 0 {
		return "none has a name"
	}
	return fmt.Sprintf("there are %s", strings.Join(words, ", "))
}
