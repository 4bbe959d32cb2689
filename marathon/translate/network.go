package translate

import (
	"path"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

func volume(v marathon.Volume) job.Volume {
	to := job.Volume{Target: v.Target(), ReadOnly: v.Mode == "RO"}
	if v.External != nil {
		to.Source, to.Driver = v.External.Name, v.External.Driver()
	} else {
		to.Source = path.Clean(v.HostPath)
	}
	return to
}

// network is the job's; ports follow from it.
func network(app *marathon.App) job.Network {
	if app.OnHost() {
		return ""
	}
	if n := app.Networks[0]; n.Mode == marathon.ContainerMode {
		return job.Network(n.Name)
	}
	return job.BridgeNetwork
}

// mappings are the ports of a container with a network of its own.
func mappings(app *marathon.App) []marathon.PortMapping {
	if app.Container == nil {
		return nil
	}
	return app.Container.PortMappings
}

// ports are the host's: each task gets one for each.
func ports(app *marathon.App) []job.Port {
	var all []job.Port
	if app.OnHost() {
		for _, d := range app.PortDefinitions {
			p := job.Port{Name: d.Name, Protocol: protocol(d.Protocol)}
			if app.RequirePorts {
				p.Host = d.Port
			}
			all = append(all, p)
		}
		return all
	}
	for _, m := range mappings(app) {
		if m.HostPort != nil {
			all = append(all, job.Port{Name: m.Name, Container: m.ContainerPort, Host: *m.HostPort, Protocol: protocol(m.Protocol)})
		}
	}
	return all
}

// protocol leaves out what is the default. In the host's network a port is for
// both.
func protocol(p string) job.Protocol {
	if p == string(job.UDP) {
		return job.UDP
	}
	return ""
}

// firstInside begins the numbers of ports that no host port leads to and that
// nobody gave a number.
const firstInside = 10_000

// inside are the ports of an app that the container's network alone reaches,
// by their numbers; nil where there are host ports. Marathon draws lots for
// those without a number.
func inside(app *marathon.App) []int {
	var all []int
	taken := map[int]bool{}
	for _, m := range mappings(app) {
		if m.HostPort != nil {
			return nil
		}
		taken[m.ContainerPort] = true
	}
	next := firstInside
	for _, m := range mappings(app) {
		port := m.ContainerPort
		if port == 0 {
			for taken[next] {
				next++
			}
			port = next
			taken[port] = true
		}
		all = append(all, port)
	}
	return all
}
