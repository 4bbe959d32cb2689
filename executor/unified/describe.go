package unified

import (
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// describe puts a task into Mesos's words. A task that came with its own
// CommandInfo keeps all of it and gets the task's variables beside its own.
func describe(t task.Task) (*mesos.CommandInfo, *mesos.ContainerInfo) {
	if t.Command != nil {
		command := *t.Command
		command.Environment = variables(t, t.Command.Environment)
		return &command, t.MesosContainer
	}
	shell := false
	command := &mesos.CommandInfo{Shell: &shell, Environment: variables(t, nil)}
	if argv := t.Launch.Command; len(argv) > 0 {
		program := argv[0]
		command.Value, command.Arguments = &program, argv
	}
	return command, imageContainer(t.Launch.Image)
}

// imageContainer is nil for a task in the agent's own file system.
func imageContainer(name string) *mesos.ContainerInfo {
	if name == "" {
		return nil
	}
	return &mesos.ContainerInfo{
		Type: mesos.ContainerInfo_MESOS.Enum(),
		Mesos: &mesos.ContainerInfo_MesosInfo{Image: &mesos.Image{
			Type:   mesos.Image_DOCKER.Enum(),
			Docker: &mesos.Image_Docker{Name: name},
		}},
	}
}

// variables is the task's environment, in the order of names, after those
// entries of own that it does not set itself: they may be secrets.
func variables(t task.Task, own *mesos.Environment) *mesos.Environment {
	set := t.Env()
	e := &mesos.Environment{}
	if own != nil {
		for _, v := range own.Variables {
			if _, ok := set[v.Name]; !ok {
				e.Variables = append(e.Variables, v)
			}
		}
	}
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := set[name]
		e.Variables = append(e.Variables, mesos.Environment_Variable{Name: name, Value: &value})
	}
	return e
}
