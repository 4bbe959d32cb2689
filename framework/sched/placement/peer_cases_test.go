package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// TestReclaimCasesOfPeers has the facts of reclaim tests of other schedulers, and which tasks end here. Where the result
// differs on purpose, the case says why.
func TestReclaimCasesOfPeers(t *testing.T) {
	for _, c := range []struct {
		name string
		// agents are their GPUs. roles are NAME=DESERVED. running are ROLE:GPUS@AGENT, waiting ROLE:TASKSxGPUS, both with + for
		// preemptible, - for guaranteed, g for a gang; ! before a priority.
		agents, roles, running, waiting string
		// want are the tasks that end, by their number.
		want string
	}{
		// KAI, actions/integration_tests/reclaim.
		{"KAI: a role above what it deserves gives back", "2 2", "q0=2 q1=2", "q0:1@0 q1:2@1 q1:1@0", "q0:1x1", "2"},
		{"KAI: nothing is taken for what a role does not deserve", "2 2", "q0=2 q1=1", "q0:1@1 q0:2@0 q1:1@1", "q1:1x1", ""},
		{"KAI ends the task of two GPUs; here the role keeps what it deserves, so the task of one GPU ends", "2 2", "q0=2 q1=2", "q0:1@1 q0:2@0 q1:1@1", "q1:1x1", "0"},
		{"KAI ends the only task of a role that deserves one GPU; here no role falls below what it deserves", "2", "q0=1 q1=1", "q0:2@0", "q1:1x1", ""},
		{"KAI reclaims for the fair share of what is left over; here only for what a role deserves", "4", "q0=1 q1=2", "q0:1@0 q1:3@0", "q0:1x1", ""},

		// What all of them share: guarantees, and no more than is needed.
		{"a free GPU comes first", "2", "q0=1 q1", "q1:1@0", "q0:1x1", ""},
		{"one task of several", "4", "q0=1 q1", "q1:1@0 q1:1@0 q1:1@0 q1:1@0", "q0:1x1", "3"},
		{"as many as are deserved", "4", "q0=2 q1", "q1:1@0 q1:1@0 q1:1@0 q1:1@0", "q0:4x1", "2 3"},
		{"of two lenders each keeps its part", "4", "q0=1 q1=2 q2=1", "q1:1@0 q1:1@0 q2:1@0 q2:1@0", "q0:1x1", "3"},
		{"no one borrows", "4", "q0=1 q1=4", "q1:1@0 q1:1@0 q1:1@0 q1:1@0", "q0:1x1", ""},
		{"preemptible tasks first", "2", "q0=1 q1", "q1:1@0+ q1:1@0", "q0:1x1", "0"},
		{"lower priority first", "2", "q0=1 q1", "q1:1@0!5 q1:1@0!9", "q0:1x1", "0"},
		{"preemptible comes before priority", "2", "q0=1 q1", "q1:1@0!1 q1:1@0!9+", "q0:1x1", "1"},
		{"guaranteed tasks never end", "2", "q0=1 q1", "q1:1@0- q1:1@0!9", "q0:1x1", "1"},
		{"a role above its entitlement first", "4", "q0=1 q1 q2", "q1:1@0+ q2:1@0 q2:1@0 q2:1@0", "q0:1x1", "3"},

		// Whole agents and gangs.
		{"the agent with the least harm", "2 2", "q0=2 q1", "q1:1@0 q1:1@0 q1:1@1 q1:1@1+", "q0:1x2", "2 3"},
		{"free GPUs of an agent count", "2 2", "q0=2 q1", "q1:1@0 q1:2@1", "q0:1x2", "0"},
		{"one task of two GPUs, not two of one", "2 2", "q0=2 q1", "q1:2@0 q1:1@1!3 q1:1@1!3", "q0:1x2", "0"},
		{"a small task that frees too little is kept", "3", "q0=2 q1", "q1:1@0!1 q1:2@0!5", "q0:1x2", "1"},
		{"a gang ends as a whole", "1 1", "q0=1 q1", "q1g:1@0 q1g:1@1", "q0:1x1", "0 1"},
		{"a single task before a gang", "1 1 1", "q0=1 q1", "q1g:1@0 q1g:1@1 q1:1@2", "q0:1x1", "2"},
		{"a gang that does not fit takes nothing", "1 1", "q0=3 q1", "q1:1@0 q1:1@1", "q0g:3x1", ""},
		{"a gang takes all at once", "1 1 1", "q0=3 q1", "q1:1@0 q1:1@1 q1:1@2", "q0g:3x1", "0 1 2"},
		{"a gang beyond what is deserved takes nothing", "1 1 1", "q0=2 q1", "q1:1@0 q1:1@1 q1:1@2", "q0g:3x1", ""},
		{"a lender's gang stays if the lender would fall below", "1 1", "q0=1 q1=1", "q1g:1@0 q1g:1@1", "q0:1x1", ""},

		// Trees, in the manner of Peloton, KAI and Kueue.
		{"a sibling gives back", "4", "a=4 a/x=2 a/y=2 b", "a/y:1@0 a/y:1@0 a/y:1@0 a/y:1@0", "a/x:1x1", "3"},
		{"a sibling before others, if the parent has what it deserves", "6", "a=4 a/x=2 a/y=2 b=2", "a/y:1@0 a/y:1@0 a/y:1@0 a/y:1@0 b:1@0 b:1@0", "a/x:1x1", "3"},
		{"others, if the parent has less", "4", "a=3 a/x=2 a/y=1 b=1", "a/y:1@0 b:1@0 b:1@0 b:1@0", "a/x:2x1", "2 3"},
		{"what a sibling deserves and does not use is for the parent's other children", "4", "a=4 a/x=2 a/y=2 b", "b:1@0 b:1@0 b:1@0 b:1@0", "a/x:4x1", "0 1 2 3"},
		{"outside of the tree nothing is taken from a parent within what it deserves", "4", "a=4 a/x=2 a/y=2 b=1", "a/x:1@0 a/x:1@0 a/x:1@0 a/x:1@0", "b:1x1", ""},
		{"a parent's own tasks give back to its children", "2", "a=2 a/x=2 b", "a:1@0 a:1@0", "a/x:1x1", "1"},
		{"a child that deserves nothing gives back to its sibling", "2", "a=2 a/x=2 a/z", "a/z:1@0 a/z:1@0", "a/x:1x1", "1"},

		{"two claims share the limit of the role above", "6", "a≤4 a/x=3 a/y=3 b", "b:1@0 b:1@0 b:1@0 b:1@0 b:1@0 b:1@0", "a/x:3x1 a/y:3x1", "2 3 4 5"},
		{"a sibling gives back though the role above is at its limit", "6", "a=4≤4 a/x=2 a/y=2 b", "a/y:1@0 a/y:1@0 a/y:1@0 a/y:1@0 b:1@0 b:1@0", "a/x:2x1", "2 3"},
		{"at the limit of the role above, a sibling gives back and free GPUs stay free", "6", "a=4≤4 a/x=2 a/y=2 b", "a/y:1@0 a/y:1@0 a/y:1@0 a/y:1@0", "a/x:2x1", "2 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range planPeerCase(t, c.agents, c.roles, c.running, c.waiting).Preempt {
				_, number, _ := strings.Cut(v.TaskID, "#")
				got = append(got, number)
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("tasks that end (-want +got):\n%s", diff)
			}
		})
	}
}

// planPeerCase makes the plan of a case in the notation of TestReclaimCasesOfPeers. Later tasks have run for less time.
func planPeerCase(t *testing.T, agents, roles, running, waiting string) Plan {
	t.Helper()
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	policy, in := Policy{}, PlanInput{Now: planTime()}
	for _, r := range strings.Fields(roles) {
		entries, limit, limited := strings.Cut(r, "≤")
		name, deserved, deserves := strings.Cut(entries, "=")
		role := queue.Role{Name: name}
		if limited {
			role.Quota = quota.Quota{quota.AllTypes: number(limit)}
		}
		if deserves {
			role.Deserved = quota.Quota{quota.AllTypes: number(deserved)}
		}
		policy.Roles = append(policy.Roles, role)
	}
	policy.SetDefaults()
	if err := policy.Validate(); err != nil {
		t.Fatal(err)
	}
	free := map[string]int{}
	for i, n := range strings.Fields(agents) {
		free[fmt.Sprint("a", i)] = number(n)
	}
	newJob := func(name, role string, tasks int, flags string) *job.Spec {
		s := waitingJob(name, tasks, nil).Spec
		s.Role, s.Gang = strings.CutSuffix(role, "g")
		s.Preemptible, s.Guaranteed = strings.HasSuffix(flags, "+"), strings.HasSuffix(flags, "-")
		if _, priority, ok := strings.Cut(strings.TrimRight(flags, "+-"), "!"); ok {
			s.Priority = number(priority)
		}
		return s
	}
	gangs := map[string]*job.Spec{}
	for i, text := range strings.Fields(running) {
		role, rest, _ := strings.Cut(text, ":")
		gpus, place, _ := strings.Cut(rest, "@")
		s := newJob(fmt.Sprint("r", i), role, 1, place[1:])
		if s.Gang {
			if gangs[role] == nil {
				gangs[role] = s
			}
			s = gangs[role]
		}
		s.Request.GPUs = number(gpus)
		agent := "a" + place[:1]
		free[agent] -= s.Request.GPUs
		in.Running = append(in.Running, queue.RunningTask{
			TaskID: fmt.Sprintf("%s#%d", s.Name, i), AgentID: agent, Spec: s, GPUTypes: map[string]int{"V100": s.Request.GPUs}, Since: planTime().Add(time.Duration(i-100) * time.Minute),
		})
	}
	for i, text := range strings.Fields(waiting) {
		role, rest, _ := strings.Cut(text, ":")
		tasks, gpus, _ := strings.Cut(rest, "x")
		j := waitingJob(fmt.Sprint("w", i), number(tasks), nil)
		j.Spec = newJob(j.Spec.Name, role, number(tasks), "")
		j.Spec.Request.GPUs = number(gpus)
		in.Waiting = append(in.Waiting, j)
	}
	var offers []fit.Offer
	for i := range free {
		if free[i] < 0 {
			t.Fatalf("agent %s is overfull", i)
		}
		for _, role := range policy.Roles {
			o := roleOffer(role.Name, i, free[i])
			if role.Name == policy.Roles[0].Name && free[i] > 0 {
				offers = append(offers, o)
			} else {
				in.Known = append(in.Known, WithoutFree(fit.JoinOffers([]fit.Offer{o})[0]))
			}
		}
	}
	c, leftoverOf := NewClusterOfOffers(offers, &in, &policy)
	return MakePlan(CachedAgents{Cluster: c, LeftoverOf: leftoverOf, Buffers: &PlanBuffers{}}, &in, &policy)
}
