package marathon

import (
	"maps"
	"slices"

	"mesos-gpu/job"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (norm *appNormalizer) checkContainer(c *Container) {
	switch {
	case c.Type == DockerType && c.Docker == nil:
		norm.addError("/container/docker", "a DOCKER container needs an image")
	case c.Docker != nil:
		for i, p := range c.Docker.Parameters {
			norm.checkParameter(elementPath("/container/docker/parameters", i), job.DockerParameter{Key: p.Key, Value: p.Value})
		}
	}
	names := map[string]bool{}
	for i, v := range c.Volumes {
		place := elementPath("/container/volumes", i)
		norm.checkVolume(place, c.Type, v)
		if v.External != nil && names[v.External.Name] {
			norm.addError("/container/volumes", "two volumes have the name %q", v.External.Name)
		} else if v.External != nil {
			names[v.External.Name] = true
		}
	}
	if len(names) > 0 {
		norm.checkExternalVolumes()
	}
}

func (norm *appNormalizer) checkParameter(place string, p job.DockerParameter) {
	part := "/key"
	if slices.Contains(job.DockerOptions(), p.OptionName()) {
		part = "/value"
	}
	if err := p.Validate(); err != nil {
		norm.addError(place+part, "%v", err)
	}
}

func (norm *appNormalizer) checkVolume(place, container string, v Volume) {
	if kinds := countTrue(v.HostPath != "", v.External != nil, v.Persistent != nil, v.Secret != ""); kinds != 1 {
		norm.addError(place, "a volume has one of hostPath, external, persistent and secret, not %d", kinds)
	}
	if v.Mode == "" && v.Secret == "" {
		norm.addError(place+"/mode", "it is needed")
	}
	if v.External == nil {
		return
	}
	if container == MesosType {
		norm.addError(place+"/external", "not served: a MESOS container gets no volume of a driver: use DOCKER")
		return
	}
	norm.checkExternalVolume(place+"/external", v.External)
}

const driverOption = "dvdi/driver"

// DriverName returns the Docker volume driver, or "" if the options do not name one.
func (e *ExternalVolume) DriverName() string {
	name, _ := e.Options[driverOption].(string)
	return name
}

func (norm *appNormalizer) checkExternalVolume(place string, e *ExternalVolume) {
	if !resourceName.MatchString(e.Name) {
		norm.addError(place+"/name", "%q is not a volume's name: 1 to %d letters, digits, dots, dashes and underscores", e.Name, maxNameLength)
	}
	if e.Provider == "" {
		norm.addError(place+"/provider", "it is needed")
	}
	if e.Provider != "dvdi" {
		return
	}
	if e.DriverName() == "" {
		norm.addError(place+"/options", "%s is needed", driverOption)
	}
	for _, name := range sortedKeys(e.Options) {
		if name != driverOption {
			norm.addError(place+"/options", "not served: %q: there is %s alone", name, driverOption)
		}
	}
}

// checkExternalVolumes requires a single instance, because two would share a volume.
func (norm *appNormalizer) checkExternalVolumes() {
	if norm.app.Instances > 1 {
		norm.addError("/", "an app with an external volume has one instance, not %d", norm.app.Instances)
	}
	if u := norm.app.UpgradeStrategy; u != nil && u.MaximumOverCapacity != 0 {
		norm.addError("/upgradeStrategy/maximumOverCapacity", "it is %s, and 0 with an external volume", formatNumber(u.MaximumOverCapacity))
	}
}
