package marathon

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last int }

// DefaultServicePorts are the service ports that Marathon allots by default.
var DefaultServicePorts = PortRange{10_000, 20_000}

// String returns the range in the form that Set parses.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// Contains reports whether a port is in the range.
func (r PortRange) Contains(port int) bool { return port >= r.First && port <= r.Last }

// Set parses a range: 10000-20000. It implements the value of a flag.
func (r *PortRange) Set(text string) error {
	first, last, _ := strings.Cut(text, "-")
	a, errFirst := strconv.Atoi(first)
	b, errLast := strconv.Atoi(last)
	if errFirst != nil || errLast != nil || a < 1 || b > maxPort || a > b {
		return fmt.Errorf("%q is not a range of ports between 1 and %d, such as %s", text, maxPort, DefaultServicePorts)
	}
	*r = PortRange{a, b}
	return nil
}

// Type names the value in the help of a flag.
func (r *PortRange) Type() string { return "FIRST-LAST" }

// ServicePorts returns the service ports of an app, 0 for those that are not allotted.
func (a *App) ServicePorts() []int {
	var ports []int
	for _, p := range a.servicePorts() {
		ports = append(ports, *p)
	}
	return ports
}

// AllotServicePorts returns a copy of the app in which each service port of 0 is the next one
// that next returns; next returns 0 without a free port. With requirePorts, the ports of the
// host's network are left: 0 is any host port there.
func (a *App) AllotServicePorts(next func() int) *App {
	c := *a
	c.PortDefinitions = slices.Clone(a.PortDefinitions)
	if a.Container != nil {
		container := *a.Container
		container.PortMappings = slices.Clone(container.PortMappings)
		c.Container = &container
	}
	if a.RequirePorts {
		return &c
	}
	for _, p := range c.servicePorts() {
		if *p == 0 {
			*p = next()
		}
	}
	return &c
}

// servicePorts returns where the service ports of the app are.
func (a *App) servicePorts() []*int {
	var ports []*int
	if !a.UsesHostNetwork() {
		if a.Container != nil {
			for i := range a.Container.PortMappings {
				ports = append(ports, &a.Container.PortMappings[i].ServicePort)
			}
		}
		return ports
	}
	for i := range a.PortDefinitions {
		ports = append(ports, &a.PortDefinitions[i].Port)
	}
	return ports
}
