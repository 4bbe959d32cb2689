package placement

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched/entitlement"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/peercases"
)

var rewriteCases = flag.Bool("rewrite", false, "write our results into testdata/peer-cases.md: commit it only if you understand each change")

// casesPage explains the notation of the cases.
const casesPage = "testdata/peer-cases.md"

// checkCases compares the results of the cases on casesPage that have the given columns with what the page states as ours,
// and checks that the page has a reason if none of them is as theirs, and none if all are. Of several columns with results,
// theirs may be in any: they are of different settings.
func checkCases(t *testing.T, columns, results []string, result func(t *testing.T, cells []string, column string) string) {
	page := peercases.ReadPage(t, casesPage)
	for _, row := range page.Rows(t, slices.Concat([]string{"case"}, columns, []string{"theirs"}, results, []string{"why"})...) {
		cells := row.Cells
		t.Run(cells[0], func(t *testing.T) {
			last := len(cells) - 1
			first := last - len(results)
			theirs, why, equal := cells[first-1], cells[last], 0
			for k, column := range results {
				got := result(t, cells[1:first-1], column)
				if *rewriteCases {
					cells[first+k] = got
					page.SetRow(row)
				} else if got != cells[first+k] {
					t.Errorf("%s: got %s, the page states %s", column, got, cells[first+k])
				}
				if got == theirs {
					equal++
				}
			}
			if theirs != "" && (equal == 0 && why == "" || equal == len(results) && why != "") {
				t.Errorf("theirs is %s, ours %s, and the reason %q", theirs, strings.Join(cells[first:last], " or "), why)
			}
		})
	}
	if *rewriteCases {
		if err := page.Write(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReclaimCases checks which running jobs end for waiting ones, in cases of other schedulers and of our own, with each
// policy of reclaim.
func TestReclaimCases(t *testing.T) {
	checkCases(t, peercases.Columns, []string{"deserved", "entitled"}, func(t *testing.T, cells []string, reclaim string) string {
		c := newPeerCase(t, ReclaimPolicy(reclaim), cells...)
		ends := map[int]bool{}
		for _, v := range c.makePlan().Preempt {
			ends[peercases.ParseNumber(t, strings.TrimPrefix(v.TaskID[:strings.Index(v.TaskID, ".")], "r"))] = true
		}
		return peercases.FormatNumbers(slices.Sorted(maps.Keys(ends)))
	})
}

// TestEntitlementCases checks what roles are entitled to, in whole units, for those that the other scheduler's test has.
func TestEntitlementCases(t *testing.T) {
	checkCases(t, []string{"capacity", "roles", "demand"}, []string{"ours"}, func(t *testing.T, cells []string, _ string) string {
		claims := map[string]*entitlement.Claim{}
		for _, r := range peercases.ParseRoles(t, cells[1]) {
			claims[r.Name] = &entitlement.Claim{
				Role:        r.Name,
				Limit:       -1,
				Weight:      r.Weight,
				Deserved:    r.Deserved.Total() * quota.MilliPerGPU,
				HasDeserved: r.Deserved != nil,
			}
		}
		for _, text := range strings.Fields(cells[2]) {
			role, demand, _ := strings.Cut(text, ":")
			claims[role].Demand = peercases.ParseNumber(t, demand) * quota.MilliPerGPU
		}
		var list []entitlement.Claim
		for _, name := range slices.Sorted(maps.Keys(claims)) {
			list = append(list, *claims[name])
		}
		granted := entitlement.Divide(peercases.ParseNumber(t, cells[0])*quota.MilliPerGPU, list)
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(granted)) {
			if granted[name] > 0 {
				parts = append(parts, fmt.Sprintf("%s=%d", name, granted[name]/quota.MilliPerGPU))
			}
		}
		return strings.Join(parts, " ")
	})
}

// TestOrderCases checks the order in which jobs are placed if all find a place.
func TestOrderCases(t *testing.T) {
	checkCases(t, []string{"roles", "running", "waiting"}, []string{"ours"}, func(t *testing.T, cells []string, _ string) string {
		roles := peercases.ParseRoles(t, cells[0])
		usage := quota.NewTracker(queue.Entitlements(roles), nil)
		place := func(role, gpus string) {
			usage.AddUsage(role, map[string]int{"V100": peercases.ParseNumber(t, gpus)}, nil, 1)
		}
		for _, text := range strings.Fields(cells[1]) {
			role, gpus, _ := strings.Cut(text, ":")
			place(role, gpus)
		}
		var waiting []queue.WaitingJob
		gpusOf := map[string]string{}
		for i, text := range strings.Fields(cells[2]) {
			role, gpus, _ := strings.Cut(text, ":")
			j := waitingJob(strconv.Itoa(i), 1, nil)
			j.Spec.Role = role
			waiting, gpusOf[j.Spec.Name] = append(waiting, j), gpus
		}
		var names []string
		order := queue.NewJobOrder(planTime(), waiting, roles, usage)
		for j, ok := order.Next(); ok; j, ok = order.Next() {
			names = append(names, j.Spec.Name)
			place(j.Spec.Role, gpusOf[j.Spec.Name])
		}
		return strings.Join(names, " ")
	})
}

// peerCase is a case that a plan is made for.
type peerCase struct {
	peercases.Case
	t      *testing.T
	policy Policy
	in     PlanInput
}

// peerDeviceMiB is the memory of each shared device in the cases.
const peerDeviceMiB = 1000

// peerAgentID returns the ID of an agent, and peerDeviceID the UUID of a shared device.
func peerAgentID(agent int) string                 { return fmt.Sprint("a", agent) }
func peerDeviceID(agent string, device int) string { return fmt.Sprintf("GPU-%s-%d", agent, device) }

// newPeerCase returns the case that the cells describe. Each running job has run a minute less than the one before.
func newPeerCase(t *testing.T, reclaim ReclaimPolicy, cells ...string) *peerCase {
	t.Helper()
	c := &peerCase{Case: peercases.Parse(t, cells), t: t}
	c.policy = Policy{Roles: c.Roles, Reclaim: reclaim}
	c.policy.SetDefaults()
	if err := c.policy.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, r := range c.Running {
		for n, agent := range r.Agents {
			task := queue.RunningTask{
				TaskID: fmt.Sprintf("%s.%d", r.Spec.Name, n), AgentID: peerAgentID(agent), Spec: r.Spec, Ending: r.Ends,
				GPUTypes: map[string]int{}, Since: planTime().Add(time.Duration(i-100) * time.Minute),
			}
			if percent := r.Spec.Request.Share.MemPercent; r.Device >= 0 {
				task.Shares = []gpu.DeviceShare{{
					UUID: peerDeviceID(task.AgentID, r.Device), Type: peercases.DefaultType,
					MemMiB: int64(percent) * peerDeviceMiB / 100, MilliDevices: percent * quota.MilliPerGPU / 100,
				}}
			} else {
				task.GPUTypes[c.Agents[agent].Type] = r.Spec.Request.GPUs
			}
			c.in.Running = append(c.in.Running, task)
		}
	}
	for _, spec := range c.Waiting {
		j := waitingJob(spec.Name, spec.Tasks, nil)
		j.Spec = spec
		c.in.Waiting = append(c.in.Waiting, j)
	}
	return c
}

// shareDevices gives the running tasks that have whole GPUs all of a shared device for each, and returns what is free of all
// shared devices, by agent.
func (c *peerCase) shareDevices(gpus map[string]int) map[string][]fit.SharedDevice {
	free, all := map[string][]fit.SharedDevice{}, map[string][]fit.SharedDevice{}
	for agent, n := range gpus {
		for i := range n {
			free[agent] = append(free[agent], fit.SharedDevice{UUID: peerDeviceID(agent, i), MemMiB: peerDeviceMiB, Cores: gpu.AllCores})
		}
		all[agent] = slices.Clone(free[agent])
	}
	c.in.SharedDevices = func(agent string) []fit.SharedDevice { return all[agent] }
	take := func(r *queue.RunningTask) {
		for _, s := range r.Shares {
			for i := range free[r.AgentID] {
				if d := &free[r.AgentID][i]; d.UUID == s.UUID {
					d.MemMiB, d.Cores = d.MemMiB-s.MemMiB, d.Cores-s.Cores
				}
			}
		}
	}
	for i := range c.in.Running {
		take(&c.in.Running[i])
	}
	for i := range c.in.Running {
		r := &c.in.Running[i]
		if len(r.Shares) > 0 {
			continue
		}
		for _, d := range free[r.AgentID] {
			if d.MemMiB == peerDeviceMiB && len(r.Shares) < r.Spec.Request.GPUs {
				r.DeviceIDs = append(r.DeviceIDs, d.UUID)
				r.Shares = append(r.Shares, gpu.DeviceShare{UUID: d.UUID, Type: peercases.DefaultType, MemMiB: d.MemMiB, Cores: d.Cores, MilliDevices: quota.MilliPerGPU})
			}
		}
		if r.GPUTypes = nil; len(r.Shares) < r.Spec.Request.GPUs {
			c.t.Fatalf("agent %s has too few GPUs", r.AgentID)
		}
		take(r)
	}
	return free
}

// makePlan makes the plan. What is free on the agents, at least CPUs, is offered to the role of the first waiting job.
func (c *peerCase) makePlan() Plan {
	c.in.Now = planTime()
	total, types, amounts := map[string]int{}, map[string]string{}, map[string]fit.Amount{}
	for i, a := range c.Agents {
		id := peerAgentID(i)
		total[id], types[id], amounts[id] = a.GPUs, a.Type, fit.Amount{CPUs: a.CPUs, MemMiB: a.MemMiB, DiskMiB: 1000}
	}
	free := maps.Clone(total)
	for i := range c.in.Running {
		r := &c.in.Running[i]
		if free[r.AgentID] -= r.Spec.Request.GPUs; free[r.AgentID] < 0 && !c.Shared {
			c.t.Fatalf("agent %s has too few GPUs", r.AgentID)
		}
		left, uses := amounts[r.AgentID], queue.TaskAmount(r.Spec, c.policy.Overhead)
		amounts[r.AgentID] = fit.Amount{CPUs: left.CPUs - uses.CPUs, MemMiB: left.MemMiB - uses.MemMiB, DiskMiB: left.DiskMiB}
	}
	var shared map[string][]fit.SharedDevice
	if c.Shared {
		shared = c.shareDevices(total)
	}
	var offers []fit.Offer
	for _, id := range slices.Sorted(maps.Keys(total)) {
		for _, role := range c.policy.Roles {
			o := roleOffer(role.Name, id, free[id])
			o.Free, o.Types = amounts[id], []string{types[id]}
			if c.Shared {
				o.GPUs, o.Shared = 0, shared[id]
				for i := range total[id] {
					o.Inventory = append(o.Inventory, gpu.Device{UUID: peerDeviceID(id, i), Model: "V100", MemMiB: peerDeviceMiB})
				}
			}
			if role.Name == c.in.Waiting[0].Spec.Role {
				offers = append(offers, o)
			} else {
				a := WithoutFree(agentOf(o))
				if c.Shared {
					a.AllShared = c.in.SharedDevices(id)
				}
				c.in.Known = append(c.in.Known, a)
			}
		}
	}
	cluster, leftoverOf := NewClusterOfOffers(pointersTo(offers), &c.in, &c.policy)
	for i := range cluster.agents {
		if a := &cluster.agents[i]; !c.Shared { // GPUs that are not shared
			a.TotalGPUs = total[a.ID]
		}
	}
	return MakePlan(CachedAgents{Cluster: cluster, LeftoverOf: leftoverOf, Buffers: &PlanBuffers{}}, &c.in, &c.policy)
}
