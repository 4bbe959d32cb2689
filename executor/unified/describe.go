package unified

import (
	"maps"
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
	if len(t.Argv) > 0 {
		command.Value, command.Arguments = &t.Argv[0], t.Argv
	}
	return command, t.MesosContainer
}

// variables is the task's environment, in the order of names, after those
// entries of own that it does not set itself: they may be secrets.
func variables(t task.Task, own *mesos.Environment) *mesos.Environment {
	set := t.Environment()
	e := &mesos.Environment{}
	if own != nil {
		for _, v := range own.Variables {
			if _, ok := set[v.Name]; !ok {
				e.Variables = append(e.Variables, v)
			}
		}
	}
	e.Variables = append(e.Variables, listed(set)...)
	return e
}

// listed is an environment in the order of its names.
func listed(env map[string]string) []mesos.Environment_Variable {
	var list []mesos.Environment_Variable
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		list = append(list, mesos.Environment_Variable{Name: name, Value: &value})
	}
	return list
}
