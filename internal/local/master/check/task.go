package check

import (
	"errors"
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/resource"
)

// LaunchCheck is the state against which a launch is validated.
type LaunchCheck struct {
	Framework mesos.FrameworkID
	Agent     mesos.AgentID
	// Free is the remaining resources of the accepted offers, allocated to
	// their role.
	Free []mesos.Resource
	// HasTask reports whether the framework has a task with that id. Executor
	// returns the framework's executor on the agent.
	HasTask  func(id string) bool
	Executor func(id string) (mesos.ExecutorInfo, bool)
}

// ValidateTask returns the first error in a task of a LAUNCH.
func (l LaunchCheck) ValidateTask(t mesos.TaskInfo) error {
	if err := l.validateCommon(t); err != nil {
		return err
	}
	if (t.Executor == nil) == (t.Command == nil) {
		return errors.New("task should have at least one (but not both) of CommandInfo or ExecutorInfo present")
	}
	want := t.Resources
	if e := t.Executor; e != nil {
		if err := l.customExecutor(*e); err != nil {
			return err
		}
		if resource.Overlaps(t.Resources, e.Resources) {
			return errors.New("there are overlapping resources in the task's and its executor's resources")
		}
		if _, runs := l.Executor(e.ExecutorID.Value); !runs {
			want = resource.Sum(want, e.Resources)
		}
	}
	if !resource.Contains(l.Free, want) {
		return fmt.Errorf("total resources %v required by task and its executor is more than available %v",
			mesos.Resources(want), mesos.Resources(l.Free))
	}
	return nil
}

func (l LaunchCheck) customExecutor(e mesos.ExecutorInfo) error {
	switch {
	case e.Type != mesos.ExecutorInfo_UNKNOWN && e.Type != mesos.ExecutorInfo_CUSTOM:
		return fmt.Errorf("'ExecutorInfo.type' must be 'CUSTOM', it is %v", e.Type)
	case e.Command == nil:
		return errors.New("'ExecutorInfo.command' must be set")
	}
	return l.validateExecutor(e)
}

// validateCommon checks what applies to tasks with and without a group.
func (l LaunchCheck) validateCommon(t mesos.TaskInfo) error {
	if err := validateID("task id", t.TaskID.Value); err != nil {
		return err
	}
	switch {
	case l.HasTask(t.TaskID.Value):
		return fmt.Errorf("task has duplicate ID: %s", t.TaskID.Value)
	case t.AgentID != l.Agent:
		return fmt.Errorf("task uses invalid agent %s while agent %s is expected", t.AgentID.Value, l.Agent.Value)
	case t.GetKillPolicy().GetGracePeriod().GetNanoseconds() < 0:
		return errors.New("task's 'kill_policy.grace_period' must be non-negative")
	case t.GetMaxCompletionTime().GetNanoseconds() < 0:
		return errors.New("task's 'max_completion_time' must be non-negative")
	case len(t.Resources) == 0:
		return errors.New("task uses no resources")
	}
	if err := validateResources(t.Resources); err != nil {
		return fmt.Errorf("task uses invalid resources: %w", err)
	}
	if err := validateContainer(t.Container); err != nil {
		return fmt.Errorf("task's ContainerInfo is invalid: %w", err)
	}
	if err := validateProbes(t); err != nil {
		return err
	}
	return validateLimits(t)
}

// validateResources checks a task's or an executor's own resources.
func validateResources(rs []mesos.Resource) error {
	if err := resource.Validate(rs); err != nil {
		return err
	}
	if resource.Overlaps(rs) {
		return errors.New("a set item or range stands there twice")
	}
	for _, r := range rs {
		if first, role := rs[0].GetAllocationInfo().GetRole(), r.GetAllocationInfo().GetRole(); role != first {
			return fmt.Errorf("the resources have multiple allocation roles (%q and %q) but only one is allowed", first, role)
		}
	}
	return nil
}

func validateContainer(c *mesos.ContainerInfo) error {
	if c == nil || c.GetType() != mesos.ContainerInfo_DOCKER {
		return nil
	}
	if c.Docker == nil {
		return errors.New("DockerInfo 'docker' is not set for DOCKER typed ContainerInfo")
	}
	for _, p := range c.Docker.Parameters {
		if p.Key == "name" {
			return errors.New("parameter in DockerInfo must not be 'name'")
		}
	}
	return nil
}

// validateLimits checks the task's resource limits, which must not be below its
// requests.
func validateLimits(t mesos.TaskInfo) error {
	for name, limit := range t.Limits {
		if name != "cpus" && name != "mem" {
			return fmt.Errorf("only cpus and mem may be included in a task's resource limits, not %q", name)
		}
		request := resource.SumScalar(t.Resources, name)
		if request == 0 || limit.Value < request {
			return fmt.Errorf("the %s limit %v must be at least the request, %v, which must be given", name, limit.Value, request)
		}
	}
	return nil
}
