package check

import (
	"errors"
	"fmt"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/resource"
)

// Minimum resources of a task group's executor.
const (
	minCPUs   = 0.01
	minMemMiB = 32
)

// validateExecutor checks the executor of a launch.
func (l LaunchCheck) validateExecutor(e mesos.ExecutorInfo) error {
	if err := validateID("executor id", e.ExecutorID.Value); err != nil {
		return err
	}
	switch {
	case e.GetShutdownGracePeriod().GetNanoseconds() < 0:
		return errors.New("ExecutorInfo's 'shutdown_grace_period' must be non-negative")
	case e.FrameworkID == nil:
		return errors.New("'ExecutorInfo.framework_id' must be set")
	case *e.FrameworkID != l.Framework:
		return fmt.Errorf("ExecutorInfo has an invalid FrameworkID (actual: %s, expected: %s)", e.FrameworkID.Value, l.Framework.Value)
	}
	if err := validateResources(e.Resources); err != nil {
		return fmt.Errorf("executor uses invalid resources: %w", err)
	}
	if err := validateContainer(e.Container); err != nil {
		return fmt.Errorf("executor's ContainerInfo is invalid: %w", err)
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

// ValidateGroup returns the first error in a LAUNCH_GROUP. One invalid task
// invalidates the whole group.
func (l LaunchCheck) ValidateGroup(e mesos.ExecutorInfo, tasks []mesos.TaskInfo) error {
	seen := map[string]bool{}
	want := [][]mesos.Resource{}
	for _, t := range tasks {
		err := l.groupTask(t, e)
		if err == nil && seen[t.TaskID.Value] {
			err = fmt.Errorf("task has duplicate ID: %s", t.TaskID.Value)
		}
		if err != nil {
			return fmt.Errorf("task %q is invalid: %w", t.TaskID.Value, err)
		}
		seen[t.TaskID.Value] = true
		want = append(want, t.Resources)
	}
	if err := l.groupExecutor(e); err != nil {
		return err
	}
	if resource.Overlaps(append(want, e.Resources)...) {
		return errors.New("there are overlapping resources in the task group's and its executor's resources")
	}
	if _, runs := l.Executor(e.ExecutorID.Value); !runs {
		want = append(want, e.Resources)
	}
	if total := resource.Sum(want...); !resource.Contains(l.Free, total) {
		return fmt.Errorf("total resources %v required by task group and its executor are more than available %v",
			mesos.Resources(total), mesos.Resources(l.Free))
	}
	return nil
}

func (l LaunchCheck) groupTask(t mesos.TaskInfo, e mesos.ExecutorInfo) error {
	if err := l.validateCommon(t); err != nil {
		return err
	}
	switch {
	case t.Executor != nil && !sameExecutor(*t.Executor, e):
		return fmt.Errorf("its ExecutorInfo is different from executor %q", e.ExecutorID.Value)
	case t.Container != nil && t.Container.GetType() == mesos.ContainerInfo_DOCKER:
		return errors.New("no Docker ContainerInfo is supported on the task")
	}
	return nil
}

func (l LaunchCheck) groupExecutor(e mesos.ExecutorInfo) error {
	switch {
	case e.Type == mesos.ExecutorInfo_UNKNOWN:
		return errors.New("'ExecutorInfo.type' must be set")
	case e.Type == mesos.ExecutorInfo_DEFAULT && e.Command != nil:
		return errors.New("'ExecutorInfo.command' must not be set for 'DEFAULT' executor")
	case e.Type == mesos.ExecutorInfo_CUSTOM && e.Command == nil:
		return errors.New("'ExecutorInfo.command' must be set for 'CUSTOM' executor")
	case e.Container != nil && e.Container.GetType() == mesos.ContainerInfo_DOCKER:
		return errors.New("no Docker ContainerInfo is supported on the executor")
	}
	name := e.ExecutorID.Value
	if cpus := resource.SumScalar(e.Resources, "cpus"); cpus < minCPUs {
		return fmt.Errorf("executor %q uses less CPUs (%v) than the minimum required (%v)", name, cpus, minCPUs)
	}
	if mem := resource.SumScalar(e.Resources, "mem"); mem < minMemMiB {
		return fmt.Errorf("executor %q uses less memory (%v) than the minimum required (%v)", name, mem, minMemMiB)
	}
	if resource.SumScalar(e.Resources, "disk") == 0 {
		return fmt.Errorf("executor %q uses no disk", name)
	}
	return l.validateExecutor(e)
}
