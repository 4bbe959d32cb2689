package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// parseTask converts a TaskInfo to a task. Resources, limits, container and
// policies come from the TaskInfo. A TaskInfo with an executor has no room for
// the command: a job has it in its LaunchData, other frameworks in a
// CommandInfo. The function is pure.
func parseTask(info mesos.TaskInfo) (task.TaskSpec, error) {
	t := parseHeldResources(info)
	if err := parseCommand(&t, info); err != nil {
		return task.TaskSpec{}, err
	}
	if err := parseContainer(&t, info.Container); err != nil {
		return task.TaskSpec{}, err
	}
	if n := len(t.DeviceIDs); n > 0 && n != t.GPUs {
		return task.TaskSpec{}, fmt.Errorf("task holds %d gpus and %d gpu_ids: take as many of each from the offer", t.GPUs, n)
	}
	var err error
	if t.DeviceShares, err = parseDeviceShares(info.Resources); err != nil {
		return task.TaskSpec{}, err
	}
	t.GPUs += len(t.DeviceShares)
	for _, p := range t.DeviceShares {
		t.DeviceIDs = append(t.DeviceIDs, p.UUID)
	}
	t.DevicesOfProvider = namesProviderDevices(info.Resources)
	return t, validateChecks(info.Check, t.HealthChecks)
}

// validateChecks rejects checks that this executor cannot run.
func validateChecks(check *mesos.CheckInfo, health []*mesos.HealthCheck) error {
	if check != nil {
		if err := validateProbe("check", checkAsHealthCheck(check)); err != nil {
			return err
		}
	}
	for _, h := range health {
		if err := validateProbe("health_check", h); err != nil {
			return err
		}
	}
	return nil
}

// parseHeldResources returns a task with its resources, limits, labels and
// policies.
func parseHeldResources(info mesos.TaskInfo) task.TaskSpec {
	t := task.TaskSpec{
		ID: info.TaskID.Value, Containerizer: job.Mesos,
		CPUs: sumScalars(info.Resources, "cpus"), MemMiB: sumScalars(info.Resources, "mem"), DiskMiB: sumScalars(plainDiskResources(info.Resources), "disk"),
		GPUs: int(sumScalars(info.Resources, "gpus")), DeviceIDs: collectSetItems(info.Resources, "gpu_ids"), Role: allocationRole(info.Resources),
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
	if info.Labels != nil {
		t.Labels = map[string]string{}
		for _, l := range info.Labels.Labels {
			t.Labels[l.Key] = l.GetValue()
		}
	}
	t.KillGrace = parseGracePeriod(info.KillPolicy, job.DefaultKillGrace)
	if info.HealthCheck != nil {
		t.HealthChecks = append(t.HealthChecks, info.HealthCheck)
	}
	return t
}

func parseGracePeriod(policy *mesos.KillPolicy, otherwise time.Duration) time.Duration {
	if policy == nil || policy.GracePeriod == nil {
		return otherwise
	}
	return max(0, time.Duration(policy.GracePeriod.Nanoseconds))
}

// parseCommand sets the command and its environment.
func parseCommand(t *task.TaskSpec, info mesos.TaskInfo) error {
	launch, ours, err := job.ParseLaunch(info.Data)
	switch {
	case info.Command != nil || !ours && info.Container != nil:
		return parseForeignCommand(t, info)
	case err != nil:
		return err
	case !ours:
		return errors.New("task has neither data nor a command: submit it by mesos-gpu, or set a command")
	}
	t.Job, t.Index, t.Argv, t.Env = launch.Job, launch.Index, launch.Command, launch.Env
	t.Secrets, t.SecretFiles, t.PullSecret, t.HostDevices = launch.Secrets, launch.SecretFiles, launch.PullSecret, launch.Devices
	t.WholeGPUs = launch.WholeGPUs
	t.User, t.Fetch, t.ImageEntrypoint, t.Warn, t.WarnPort = launch.User, launch.Fetch, launch.ImageEntrypoint, launch.Warn, launch.WarnPort
	t.ShutdownDelay, t.HostUser, t.RunsAsOwner, t.Chdir = launch.ShutdownDelay, launch.HostUser, launch.RunsAsOwner, launch.Chdir
	if launch.KillGrace != nil {
		t.KillGrace = *launch.KillGrace
	}
	for i, text := range launch.HealthChecks {
		h := &mesos.HealthCheck{}
		if err := json.Unmarshal(text, h); err != nil {
			return fmt.Errorf("read health check %d of the task data: %w", i+1, err)
		}
		t.HealthChecks = append(t.HealthChecks, h)
	}
	return nil
}

// parseForeignCommand sets the command of a task that another framework
// launched. Without a command the image's own runs.
func parseForeignCommand(t *task.TaskSpec, info mesos.TaskInfo) error {
	t.Command = info.Command
	if t.Command == nil {
		t.Command = &mesos.CommandInfo{}
	}
	t.Job, t.Env = info.Name, plainVariables(t.Command.Environment)
	if info.Container == nil || info.Container.GetType() != mesos.ContainerInfo_DOCKER {
		return nil
	}
	c := t.Command
	if len(c.URIs) > 0 {
		return errors.New("docker task has command.uris: agents fetch URIs only for executors, leave them out")
	}
	if name := firstSecretVariable(c.Environment); name != "" {
		return fmt.Errorf("docker task's variable %s is a secret: this executor resolves none, give it a value", name)
	}
	if !c.GetShell() {
		if c.GetValue() != "" {
			t.Argv = append(t.Argv, c.GetValue())
		}
		t.Argv = append(t.Argv, c.Arguments...)
		return nil
	}
	if c.GetValue() != "" {
		t.Entrypoint, t.Argv = []string{"/bin/sh"}, []string{"-c", c.GetValue()}
	}
	return nil
}

// parseContainer sets the image. The runtimes apply or reject the rest of the
// ContainerInfo.
func parseContainer(t *task.TaskSpec, c *mesos.ContainerInfo) error {
	t.MesosContainer = c
	switch {
	case c == nil:
	case c.GetType() == mesos.ContainerInfo_DOCKER && c.Docker.GetImage() == "":
		return errors.New("container of type DOCKER has no docker.image: name one")
	case c.GetType() == mesos.ContainerInfo_DOCKER:
		t.Containerizer, t.Image = job.Docker, c.Docker.Image
	default:
		t.Image = c.GetMesos().GetImage().GetDocker().GetName()
	}
	return nil
}

// firstSecretVariable returns the name of the first variable without a plain
// value, or "".
func firstSecretVariable(e *mesos.Environment) string {
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

func plainVariables(e *mesos.Environment) map[string]string {
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

func allocationRole(resources []mesos.Resource) string {
	for _, r := range resources {
		if r.AllocationInfo != nil && r.AllocationInfo.Role != nil {
			return *r.AllocationInfo.Role
		}
	}
	return ""
}

func sumScalars(resources []mesos.Resource, name string) float64 {
	var sum float64
	for _, r := range resources {
		if r.Name == name && r.Scalar != nil {
			sum += r.Scalar.Value
		}
	}
	return sum
}

func collectSetItems(resources []mesos.Resource, name string) []string {
	var items []string
	for _, r := range resources {
		if r.Name == name && r.Set != nil {
			items = append(items, r.Set.Item...)
		}
	}
	return items
}
