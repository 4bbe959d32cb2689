package translate

import (
	"cmp"
	"maps"
	"path"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
)

func translateVolume(v marathon.Volume) job.Volume {
	to := job.Volume{Target: v.TargetPath(), ReadOnly: v.Mode == "RO"}
	if v.External != nil {
		to.Source, to.Driver = v.External.Name, v.External.DriverName()
	} else {
		to.Source = path.Clean(v.HostPath)
	}
	return to
}

// setNetwork sets the network of the job and its host ports. The bridge of a MESOS
// container is a CNI network, as in Marathon.
func setNetwork(spec *job.Spec, app *marathon.App, s marathon.ParseSettings) {
	spec.Ports = hostPorts(app)
	if app.UsesHostNetwork() {
		return
	}
	n := app.Networks[0]
	switch {
	case n.Mode == marathon.ContainerMode:
		spec.Network = job.NetworkMode(n.Name)
	case spec.Containerizer == job.Mesos:
		spec.Network = job.NetworkMode(cmp.Or(s.BridgeNetwork, marathon.MesosBridge))
	default:
		spec.Network = job.BridgeNetwork
	}
	if spec.Containerizer == job.Mesos {
		spec.NetworkLabels = maps.Clone(n.Labels)
	}
}

// portMappings returns the ports of a container with a network of its own.
func portMappings(app *marathon.App) []marathon.PortMapping {
	if app.Container == nil {
		return nil
	}
	return app.Container.PortMappings
}

// hostPorts returns the host ports of each task.
func hostPorts(app *marathon.App) []job.Port {
	var all []job.Port
	if app.UsesHostNetwork() {
		for _, d := range app.PortDefinitions {
			p := job.Port{Name: d.Name, Protocol: portProtocol(d.Protocol)}
			if app.RequirePorts {
				p.Host = d.Port
			} else {
				p.Service = d.Port
			}
			all = append(all, p)
		}
		return all
	}
	for _, m := range portMappings(app) {
		if m.HostPort != nil {
			all = append(all, job.Port{Name: m.Name, Container: m.ContainerPort, Host: *m.HostPort, Protocol: portProtocol(m.Protocol)})
		}
	}
	return all
}

// portProtocol leaves out the default. In the host's network a port is for both protocols.
func portProtocol(p string) job.PortProtocol {
	if p == string(job.UDP) {
		return job.UDP
	}
	return ""
}

// firstAssignedPort is the first number for container ports that have neither a host port
// nor a number.
const firstAssignedPort = 10_000

// containerPorts returns the numbers of ports that are reachable only in the container's
// network, or nil if there are host ports. Ports without a number get one in order; Marathon
// chooses them at random.
func containerPorts(app *marathon.App) []int {
	var all []int
	taken := map[int]bool{}
	for _, m := range portMappings(app) {
		if m.HostPort != nil {
			return nil
		}
		taken[m.ContainerPort] = true
	}
	next := firstAssignedPort
	for _, m := range portMappings(app) {
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
