package check

import (
	"errors"
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
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
	if err := link.ValidateID("task id", t.TaskID.Value); err != nil {
		return err
	}
	switch {
	case l.HasTask(t.TaskID.Value):
		return fmt.Errorf("task has duplicate ID: %s", t.TaskID.Value)
	case t.AgentID != l.Agent:
		return fmt.Errorf("task uses invalid agent %s while agent %s is expected", t.AgentID.Value, l.Agent.Value)
	case len(t.Resources) == 0:
		return errors.New("task uses no resources")
	case (t.Executor == nil) == (t.Command == nil):
		return errors.New("task should have at least one (but not both) of CommandInfo or ExecutorInfo present")
	}
	if err := validateResources(t.Resources); err != nil {
		return fmt.Errorf("task uses invalid resources: %w", err)
	}
	want := t.Resources
	if e := t.Executor; e != nil {
		if err := l.validateExecutor(*e); err != nil {
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

// validateExecutor checks the executor of a launch.
func (l LaunchCheck) validateExecutor(e mesos.ExecutorInfo) error {
	if err := link.ValidateID("executor id", e.ExecutorID.Value); err != nil {
		return err
	}
	switch {
	case e.Type != mesos.ExecutorInfo_UNKNOWN && e.Type != mesos.ExecutorInfo_CUSTOM:
		return fmt.Errorf("'ExecutorInfo.type' must be 'CUSTOM', it is %v", e.Type)
	case e.Command == nil:
		return errors.New("'ExecutorInfo.command' must be set")
	case e.FrameworkID == nil:
		return errors.New("'ExecutorInfo.framework_id' must be set")
	case *e.FrameworkID != l.Framework:
		return fmt.Errorf("ExecutorInfo has an invalid FrameworkID (actual: %s, expected: %s)", e.FrameworkID.Value, l.Framework.Value)
	}
	if err := validateResources(e.Resources); err != nil {
		return fmt.Errorf("executor uses invalid resources: %w", err)
	}
	if existing, runs := l.Executor(e.ExecutorID.Value); runs && !sameExecutor(existing, e) {
		return fmt.Errorf("ExecutorInfo is not compatible with existing ExecutorInfo with same ExecutorID %q", e.ExecutorID.Value)
	}
	return nil
}

func sameExecutor(a, b mesos.ExecutorInfo) bool {
	if !resource.Equal(a.Resources, b.Resources) {
		return false
	}
	a.Resources, b.Resources = nil, nil
	return a.Equal(b)
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
