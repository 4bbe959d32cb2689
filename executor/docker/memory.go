package docker

import "mesos-gpu/internal/memorycgroup"

// watchMemory reads the container's memory usage when it runs out of memory: the engine removes the cgroup as soon as the
// first process has ended. The cgroup is not found if the engine is on another machine.
func (r *runningContainer) watchMemory() {
	group, err := memorycgroup.FindNamed(r.procDir, r.id)
	if err == nil {
		r.memory, err = group.Watch()
	}
	if err != nil {
		r.log.WithError(err).Debug("if the task runs out of memory, its peak is not known")
	}
}
