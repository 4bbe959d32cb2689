package marathon

import (
	"fmt"
	"slices"
	"strings"
)

func (f *finish) networkRules() {
	nets := f.app.Networks
	named := map[string]bool{}
	for _, n := range nets {
		const place = "/networks" // Marathon names no element here
		switch {
		case n.Mode == HostMode && (n.Name != "" || len(n.Labels) > 0):
			f.bad(place, "the host's network has no name and no labels")
		case n.Mode == BridgeMode && n.Name != "":
			f.bad(place, "the bridge has no name")
		case n.Mode == ContainerMode && n.Name == "" && f.settings.DefaultNetwork == "":
			f.bad(place, "a container network needs a name: the scheduler has no default")
		}
		if n.Mode == ContainerMode && named[n.Name] {
			f.bad("/networks", "%q stands twice", n.Name)
		}
		named[n.Name] = true
	}
	containers := countMode(nets, ContainerMode)
	if len(nets) > 1 && containers < len(nets) {
		f.bad("/networks", "an app has the host's network, or the bridge, or container networks")
	}
	if containers > 1 && f.app.Container != nil && f.app.Container.Type == DockerType {
		f.bad("/", "a DOCKER container joins one container network, not %d", containers)
	}
}

func (f *finish) portRules() {
	a := f.app
	var names []string
	var ports []int
	for _, d := range a.PortDefinitions {
		names, ports = append(names, d.Name), append(ports, d.Port)
	}
	f.uniqueStrings("/portDefinitions", names)
	if p := duplicate(ports); p != 0 {
		f.bad("/portDefinitions", "port %d stands twice", p)
	}
	if a.Container == nil {
		return
	}
	f.uniqueNames("/container/portMappings", a.Container.PortMappings)
	if onHost(a.Networks) && len(a.Container.PortMappings) > 0 {
		f.bad("/", "there are no port mappings in the host's network: use portDefinitions")
	}
	var networks []string
	for _, n := range a.Networks {
		networks = append(networks, n.Name)
	}
	for i, m := range a.Container.PortMappings {
		place := index("/container/portMappings", i)
		for j, n := range m.NetworkNames {
			if !slices.Contains(networks, n) {
				f.bad(index(place+"/networkNames", j), "%q is none of the app's networks: %s", n, strings.Join(networks, ", "))
			}
		}
		if m.HostPort != nil && countMode(a.Networks, ContainerMode) > 1 && len(m.NetworkNames) != 1 {
			f.bad(place, "a port with a hostPort names one of the app's networks in networkNames")
		}
	}
}

func (f *finish) uniqueNames(place string, mappings []PortMapping) {
	var names []string
	for _, m := range mappings {
		names = append(names, m.Name)
	}
	f.uniqueStrings(place, names)
}

func (f *finish) uniqueStrings(place string, names []string) {
	for i, n := range names {
		if n != "" && slices.Contains(names[:i], n) {
			f.bad(place, "two ports have the name %q", n)
		}
	}
}

// HostPortNames are the names of an app's host ports, in their order: those
// by which a readiness check, which comes from elsewhere, may call a port.
func (a *App) HostPortNames() []string {
	var names []string
	if a.Container != nil && a.Container.PortMappings != nil {
		for _, m := range a.Container.PortMappings {
			if m.HostPort != nil || hasMode(a.Networks, BridgeMode) { // where it is left out it is any
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

func list(words []string) string {
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	if len(words) == 0 {
		return "none has a name"
	}
	return fmt.Sprintf("there are %s", strings.Join(words, ", "))
}
