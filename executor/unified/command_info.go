package unified

import (
	"maps"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// buildLaunch converts a task to Mesos's messages. A task with its own
// CommandInfo keeps all of it and gets the task's variables in addition. HOME of
// another task without an image is its sandbox, unless the task sets HOME: programs write
// caches and settings there, and the default user has no home folder.
func buildLaunch(t task.TaskSpec, sandbox string) (*mesos.CommandInfo, *mesos.ContainerInfo) {
	if t.Command != nil {
		command := *t.Command
		command.Environment = mergeVariables(t, t.Command.Environment)
		return &command, containerWithMounts(t)
	}
	shell := false
	var home *mesos.Environment
	if t.Image == "" {
		home = &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "HOME", Value: &sandbox}}}
	}
	command := &mesos.CommandInfo{Shell: &shell, Environment: mergeVariables(t, home)}
	switch {
	case t.ImageEntrypoint: // without a value Mesos uses the image's
		command.Arguments = t.Argv
	case len(t.Argv) > 0:
		argv := t.Argv
		if t.Chdir != "" {
			argv = job.StartInFolder(t.Chdir, argv)
		}
		command.Value, command.Arguments = &argv[0], argv
	}
	if t.User != "" {
		command.User = &t.User
	}
	for _, a := range t.Fetch {
		command.URIs = append(command.URIs, artifactURI(a))
	}
	return command, containerWithMounts(t)
}

// containerWithMounts returns the task's container with the mounts that the
// executor adds.
func containerWithMounts(t task.TaskSpec) *mesos.ContainerInfo {
	mounts := t.HostMounts()
	if len(mounts) == 0 {
		return t.MesosContainer
	}
	c := mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum()}
	if t.MesosContainer != nil {
		c = *t.MesosContainer
	}
	c.Volumes = slices.Clone(c.Volumes)
	for _, m := range mounts {
		mode := mesos.RW
		if m.ReadOnly {
			mode = mesos.RO
		}
		c.Volumes = append(c.Volumes, mesos.Volume{
			Mode: &mode, ContainerPath: m.Target,
			Source: &mesos.Volume_Source{Type: mesos.Volume_Source_HOST_PATH, HostPath: &mesos.Volume_Source_HostPath{Path: m.Source}},
		})
	}
	return &c
}

// artifactURI sets every field explicitly: Mesos extracts archives by default.
func artifactURI(a job.FetchArtifact) mesos.CommandInfo_URI {
	u := mesos.CommandInfo_URI{Value: a.URI, Executable: &a.Executable, Extract: &a.Extract, Cache: &a.Cache}
	if a.Path != "" {
		u.OutputFile = &a.Path
	}
	return u
}

// mergeVariables returns the task's environment, sorted by name. Entries of
// own with other names come first and stay as they are, because they may be
// secrets.
func mergeVariables(t task.TaskSpec, own *mesos.Environment) *mesos.Environment {
	set := t.Environment()
	e := &mesos.Environment{}
	if own != nil {
		for _, v := range own.Variables {
			if _, ok := set[v.Name]; !ok {
				e.Variables = append(e.Variables, v)
			}
		}
	}
	e.Variables = append(e.Variables, sortedVariables(set)...)
	return e
}

// sortedVariables returns an environment sorted by name.
func sortedVariables(env map[string]string) []mesos.Environment_Variable {
	var list []mesos.Environment_Variable
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		list = append(list, mesos.Environment_Variable{Name: name, Value: &value})
	}
	return list
}
