package executor

import (
	"errors"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// describe turns what Mesos launches into a task: from the Launch in the
// task's data or, where Mesos's own CommandInfo or ContainerInfo says what to
// run (its data is then the framework's own), from those. It is pure.
func describe(info mesos.TaskInfo) (task.Task, error) {
	t := task.Task{ID: info.TaskID.Value, Role: role(info.Resources)}
	var err error
	switch {
	case info.Command != nil || info.Container != nil:
		err = fromCommand(&t, info)
	case len(info.Data) > 0:
		t.Launch, err = job.ParseLaunch(info.Data)
	default:
		err = errors.New("task has neither data nor a command: submit it by mesos-gpu, or set a command")
	}
	if err != nil {
		return task.Task{}, err
	}
	switch {
	case info.Check != nil:
		return task.Task{}, errors.New("task has a check, which is not served: use a health_check")
	case info.HealthCheck != nil && t.Launch.Containerizer != job.Docker:
		return task.Task{}, errors.New("task has a health_check, which is served in docker containers only: leave it out, or use container type DOCKER")
	}
	if n, want := len(t.Launch.DeviceIDs), t.Launch.GPUs; n > 0 && n != want {
		return task.Task{}, fmt.Errorf("task holds %d gpus and %d gpu_ids: take as many of each from the offer", want, n)
	}
	return t, nil
}

func fromCommand(t *task.Task, info mesos.TaskInfo) error {
	command := info.Command
	if command == nil {
		command = &mesos.CommandInfo{}
	}
	t.Command, t.MesosContainer = command, info.Container
	t.Launch = job.Launch{
		Version: job.LaunchVersion, Job: info.Name, Containerizer: job.Mesos,
		Env: environment(command.Environment), KillGrace: job.DefaultKillGrace,
		CPUs: scalar(info.Resources, "cpus"), MemMiB: scalar(info.Resources, "mem"),
		GPUs: int(scalar(info.Resources, "gpus")), DeviceIDs: set(info.Resources, "gpu_ids"),
	}
	for name, limit := range info.Limits {
		if t.Limits == nil {
			t.Limits = map[string]float64{}
		}
		t.Limits[name] = limit.Value
	}
	for _, r := range info.Resources {
		if r.Name == "ports" && r.Ranges != nil {
			t.Ports = append(t.Ports, r.Ranges.Range...)
		}
	}
	if info.KillPolicy != nil && info.KillPolicy.GracePeriod != nil {
		t.Launch.KillGrace = time.Duration(info.KillPolicy.GracePeriod.Nanoseconds)
	}
	if info.Container == nil || info.Container.GetType() != mesos.ContainerInfo_DOCKER {
		return nil
	}
	return fromDocker(t, command, info.Container)
}

// fromDocker reads what says what to run. The rest of the ContainerInfo the
// Docker runtime serves, or refuses.
func fromDocker(t *task.Task, command *mesos.CommandInfo, c *mesos.ContainerInfo) error {
	d := c.Docker
	switch {
	case d == nil || d.Image == "":
		return errors.New("container of type DOCKER has no docker.image: name one")
	case len(command.URIs) > 0:
		return errors.New("docker task asks for command.uris: agents fetch those of executors only, leave them out")
	}
	if name := secret(command.Environment); name != "" {
		return fmt.Errorf("docker task's variable %s is a secret: this executor resolves none, give it a value", name)
	}
	t.Launch.Containerizer, t.Launch.Image = job.Docker, d.Image
	if !command.GetShell() {
		if command.GetValue() != "" {
			t.Launch.Command = append(t.Launch.Command, command.GetValue())
		}
		t.Launch.Command = append(t.Launch.Command, command.Arguments...)
		return nil
	}
	if command.GetValue() != "" {
		t.Entrypoint, t.Launch.Command = []string{"/bin/sh"}, []string{"-c", command.GetValue()}
	}
	return nil
}

// secret is the name of the first variable that has no plain value.
func secret(e *mesos.Environment) string {
	if e == nil {
		return ""
	}
	for _, v := range e.Variables {
		if v.Value == nil {
			return v.Name
		}
	}
	return ""
}

func environment(e *mesos.Environment) map[string]string {
	env := map[string]string{}
	if e == nil {
		return env
	}
	for _, v := range e.Variables {
		if v.Value != nil {
			env[v.Name] = *v.Value
		}
	}
	return env
}

func role(resources []mesos.Resource) string {
	for _, r := range resources {
		if r.AllocationInfo != nil && r.AllocationInfo.Role != nil {
			return *r.AllocationInfo.Role
		}
	}
	return ""
}

func scalar(resources []mesos.Resource, name string) float64 {
	var sum float64
	for _, r := range resources {
		if r.Name == name && r.Scalar != nil {
			sum += r.Scalar.Value
		}
	}
	return sum
}

func set(resources []mesos.Resource, name string) []string {
	var items []string
	for _, r := range resources {
		if r.Name == name && r.Set != nil {
			items = append(items, r.Set.Item...)
		}
	}
	return items
}
