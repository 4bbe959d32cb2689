package crash

import (
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/isolator/advertise"
)

// checkInterval is how often the master's state is read.
const checkInterval = 20 * time.Millisecond

// masterAuditor continuously checks the master's state.
type masterAuditor struct {
	c       *crashCluster
	stop    chan struct{}
	running sync.WaitGroup

	looks, most int // number of checks, and the most devices held at a time
}

func startAuditor(c *crashCluster) *masterAuditor {
	a := &masterAuditor{c: c, stop: make(chan struct{})}
	a.running.Go(func() {
		again := time.NewTicker(checkInterval)
		defer again.Stop()
		for {
			a.checkMaster()
			select {
			case <-again.C:
			case <-a.stop:
				return
			}
		}
	})
	c.t.Cleanup(a.stopAuditor)
	return a
}

// stopAuditor stops the checks; it may be called repeatedly.
func (a *masterAuditor) stopAuditor() {
	select {
	case <-a.stop:
	default:
		close(a.stop)
	}
	a.running.Wait()
}

func (a *masterAuditor) checkMaster() {
	all, err := a.c.callMaster(operator.Call_GET_TASKS)
	if err != nil {
		a.c.t.Error(err)
		return
	}
	held := tasksByDevice(a.c.t, all.GetTasks.Tasks)
	a.looks++
	a.most = max(a.most, len(held))
}

// tasksByDevice returns the live tasks by device. It fails the test if a device has two.
func tasksByDevice(t testing.TB, tasks []mesos.Task) map[string]string {
	held := map[string]string{}
	for i := range tasks {
		task := &tasks[i]
		if isTerminal(task.GetState()) {
			continue
		}
		for _, id := range deviceIDs(task.Resources) {
			if other := held[id]; other != "" {
				t.Errorf("the master's books: tasks %s and %s both hold %s", other, task.TaskID.Value, id)
			}
			held[id] = task.TaskID.Value
		}
	}
	return held
}

func deviceIDs(resources []mesos.Resource) (ids []string) {
	for i := range resources {
		if resources[i].Name == advertise.ResourceGPUIDs {
			ids = append(ids, resources[i].GetSet().GetItem()...)
		}
	}
	return ids
}

func isTerminal(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_STAGING, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_KILLING, mesos.TASK_UNREACHABLE:
		return false
	}
	return true
}
