package marathon

import (
	"maps"
	"slices"

	"mesos-gpu/job"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (f *finish) containerRules(c *Container) {
	switch {
	case c.Type == DockerType && c.Docker == nil:
		f.bad("/container/docker", "a DOCKER container needs an image")
	case c.Docker != nil:
		for i, p := range c.Docker.Parameters {
			f.parameter(index("/container/docker/parameters", i), job.Parameter{Key: p.Key, Value: p.Value})
		}
	}
	names := map[string]bool{}
	for i, v := range c.Volumes {
		place := index("/container/volumes", i)
		f.volume(place, c.Type, v)
		if v.External != nil && names[v.External.Name] {
			f.bad("/container/volumes", "two volumes have the name %q", v.External.Name)
		} else if v.External != nil {
			names[v.External.Name] = true
		}
	}
	if len(names) > 0 {
		f.externalRules()
	}
}

func (f *finish) parameter(place string, p job.Parameter) {
	part := "/key"
	if slices.Contains(job.Options(), p.Option()) {
		part = "/value"
	}
	if err := p.Validate(); err != nil {
		f.bad(place+part, "%v", err)
	}
}

func (f *finish) volume(place, container string, v Volume) {
	if kinds := count(v.HostPath != "", v.External != nil, v.Persistent != nil, v.Secret != ""); kinds != 1 {
		f.bad(place, "a volume has one of hostPath, external, persistent and secret, not %d", kinds)
	}
	if v.Mode == "" && v.Secret == "" {
		f.bad(place+"/mode", "it is needed")
	}
	if v.External == nil {
		return
	}
	if container == MesosType {
		f.bad(place+"/external", "not served: a MESOS container gets no volume of a driver: use DOCKER")
		return
	}
	f.external(place+"/external", v.External)
}

const driverOption = "dvdi/driver"

// Driver is the docker volume driver; empty where the options name none.
func (e *ExternalVolume) Driver() string {
	name, _ := e.Options[driverOption].(string)
	return name
}

func (f *finish) external(place string, e *ExternalVolume) {
	if !volumeName.MatchString(e.Name) {
		f.bad(place+"/name", "%q is no volume's name: 1 to %d letters, digits, dots, dashes and underscores", e.Name, longestName)
	}
	if e.Provider == "" {
		f.bad(place+"/provider", "it is needed")
	}
	if e.Provider != "dvdi" {
		return
	}
	if e.Driver() == "" {
		f.bad(place+"/options", "%s is needed", driverOption)
	}
	for _, name := range sorted(e.Options) {
		if name != driverOption {
			f.bad(place+"/options", "not served: %q: there is %s alone", name, driverOption)
		}
	}
}

// externalRules keep one instance to one volume.
func (f *finish) externalRules() {
	if f.app.Instances > 1 {
		f.bad("/", "an app with an external volume has one instance, not %d", f.app.Instances)
	}
	if u := f.app.UpgradeStrategy; u != nil && u.MaximumOverCapacity != 0 {
		f.bad("/upgradeStrategy/maximumOverCapacity", "it is %s, and 0 with an external volume", number(u.MaximumOverCapacity))
	}
}
