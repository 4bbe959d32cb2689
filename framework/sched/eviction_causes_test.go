package sched

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// TestEachCauseOfAnEndHonoursTheSameKeys: whatever a task ends for, the keys of its job and of the waiting one that are
// about that mean the same. Each cause has one running job and one waiting job, in a cluster that is full. A drain is no
// such cause: it is for no job, and stops tasks at any time (testdata/min_run_time_drain.txt).
func TestEachCauseOfAnEndHonoursTheSameKeys(t *testing.T) {
	gpus := func(n int) quota.Quota { return quota.Quota{quota.AllTypes: n} }
	causes := map[string]struct {
		roles                  []queue.Role
		victimRole, waiterRole string
		spare                  int // GPUs that stay free
	}{
		"preemption": {[]queue.Role{{Name: "a"}}, "a", "a", 0},
		"reclaim":    {[]queue.Role{{Name: "a"}, {Name: "b", Deserved: gpus(2)}}, "a", "b", 0},
		"room within a limit": {[]queue.Role{
			{Name: "lab", Deserved: gpus(2), Quota: gpus(2)}, {Name: "lab/x"}, {Name: "lab/y", Deserved: gpus(2)},
		}, "lab/x", "lab/y", 2},
	}
	keys := map[string]struct {
		victim, waiter func(*job.Spec)
		// after is when the task ends, since the waiting job was submitted, which is 10 s after the task has started.
		after time.Duration
	}{
		"none":           {nil, nil, 0},
		"min_run_time":   {func(s *job.Spec) { s.MinRunTime = time.Minute }, nil, 50 * time.Second},
		"preempt_after":  {nil, func(s *job.Spec) { s.PreemptAfter = time.Minute }, time.Minute},
		"warn":           {func(s *job.Spec) { s.Warn = &job.Warning{Signal: "USR1", Before: 20 * time.Second} }, nil, 0},
		"checkpoint_dir": {func(s *job.Spec) { s.CheckpointDir = "/data" }, nil, 0},
		"warn, within preempt_after": {
			func(s *job.Spec) { s.Warn = &job.Warning{Signal: "USR1", Before: 20 * time.Second} },
			func(s *job.Spec) { s.PreemptAfter = time.Minute }, 40 * time.Second,
		},
	}
	for cause, roles := range causes {
		for key, k := range keys {
			t.Run(cause+"/"+key, func(t *testing.T) {
				c := newPeerCluster(t, placement.Policy{Roles: roles.roles}, map[string]int{"m": 2 + roles.spare})
				var submitted, ended time.Time
				var kill KillTask
				var again map[string]string
				c.onKill = func(op KillTask) { kill, ended = op, c.now }
				c.onLaunch = func(l *TaskLaunch) {
					if l.Spec.Name == "victim" && l.Attempt > 1 {
						again = l.Environment()
					}
				}
				c.submit("victim", roles.victimRole, 1, 2, func(s *job.Spec) {
					s.Preemptible, s.KillGrace = true, 5*time.Second
					if k.victim != nil {
						k.victim(s)
					}
				})
				for range 10 {
					c.round()
				}
				if c.launches != 1 {
					t.Fatalf("%d tasks run", c.launches)
				}
				c.submit("waiter", roles.waiterRole, 1, 2, func(s *job.Spec) {
					s.Priority = 5
					if k.waiter != nil {
						k.waiter(s)
					}
				})
				submitted = c.now
				for range 80 {
					c.round()
				}
				if c.kills != 1 || !strings.HasPrefix(kill.TaskID, "victim") {
					t.Fatalf("%d tasks were stopped, the last one %q, want the running one", c.kills, kill.TaskID)
				}
				if early, late := ended.Sub(submitted)-k.after, 12*time.Second; early < -time.Second || early > late {
					t.Errorf("the task was stopped %s after the submission, want %s", ended.Sub(submitted), k.after)
				}
				spec := c.st.Jobs()[0].Spec
				if want := spec.EvictionGrace(); spec.Warn != nil && kill.Grace != want {
					t.Errorf("the task gets %s, want its warning and its kill grace, %s", kill.Grace, want)
				}
				if err := c.st.Step(c.now, KillJob{Job: "waiter"}); len(err) == 0 {
					t.Fatal("the waiting job is not killed")
				}
				c.onKill = nil
				c.end("waiter.0.1", job.Killed)
				for range 20 {
					c.round()
				}
				if again["MESOS_GPU_RESTART_COUNT"] != "1" || spec.CheckpointDir != "" && again["MESOS_GPU_CHECKPOINT_DIR"] != "/data/victim@1/0" {
					t.Errorf("the next attempt has %v", again)
				}
			})
		}
	}
}
