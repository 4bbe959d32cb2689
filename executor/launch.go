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
	t := task.Task{ID: info.TaskID.Value}
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
	if info.KillPolicy != nil && info.KillPolicy.GracePeriod != nil {
		t.Launch.KillGrace = time.Duration(info.KillPolicy.GracePeriod.Nanoseconds)
	}
	if info.Container == nil || info.Container.GetType() != mesos.ContainerInfo_DOCKER {
		return nil
	}
	return fromDocker(t, command, info.Container)
}

// fromDocker reads what the Docker runtime serves of a ContainerInfo and
// refuses the rest: a task without its volume or port would fail later, and
// less clearly.
func fromDocker(t *task.Task, command *mesos.CommandInfo, c *mesos.ContainerInfo) error {
	d := c.Docker
	if d == nil || d.Image == "" {
		return errors.New("container of type DOCKER has no docker.image: name one")
	}
	refused := ""
	switch {
	case d.GetPrivileged():
		refused = "docker.privileged, which would open every GPU"
	case len(c.Volumes) > 0:
		refused = "container.volumes"
	case len(d.PortMappings) > 0:
		refused = "docker.port_mappings"
	case len(d.Parameters) > 0:
		refused = "docker.parameters"
	case d.GetNetwork() != mesos.ContainerInfo_DockerInfo_HOST && d.Network != nil:
		refused = "docker.network " + d.GetNetwork().String()
	case len(command.URIs) > 0:
		refused = "command.uris"
	}
	if refused != "" {
		return fmt.Errorf("docker task asks for %s: this executor does not serve it, leave it out", refused)
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
