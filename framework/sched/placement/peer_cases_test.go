package placement

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"mesos-gpu/framework/sched/entitlement"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

var rewriteCases = flag.Bool("rewrite", false, "write our results into testdata/peer-cases.md: commit it only if you understand each change")

// casesPage explains the notation of the cases.
const casesPage = "testdata/peer-cases.md"

// checkCases compares the results of the cases on casesPage that have the given columns with what the page states as ours,
// and checks that each difference from theirs has a reason on the page. Of several columns with results, theirs may be in
// any: they are of different settings.
func checkCases(t *testing.T, columns string, results []string, result func(t *testing.T, cells []string, column string) string) {
	page, err := os.ReadFile(casesPage)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	header := "| case | " + columns + " | theirs | " + strings.Join(results, " | ") + " | why |"
	isTable, number := false, 0
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| case ") {
			isTable = line == header
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !isTable || strings.HasPrefix(line, "|--") {
			continue
		}
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		number++
		t.Run(cells[0], func(t *testing.T) {
			last := len(cells) - 1
			first := last - len(results)
			theirs, why, differs := cells[first-1], cells[last], true
			for k, column := range results {
				got := result(t, cells[1:first-1], column)
				if *rewriteCases {
					cells[first+k] = got
					lines[i] = "| " + strings.Join(cells, " | ") + " |"
				} else if got != cells[first+k] {
					t.Errorf("%s: got %s, the page states %s", column, got, cells[first+k])
				}
				differs = differs && got != theirs
			}
			if theirs != "" && differs != (why != "") {
				t.Errorf("theirs is %s, ours %s, and the reason %q", theirs, strings.Join(cells[first:last], " or "), why)
			}
		})
	}
	if number == 0 {
		t.Errorf("%s has no cases with the columns %s", casesPage, columns)
	}
	if *rewriteCases {
		if err := os.WriteFile(casesPage, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReclaimCases checks which running jobs end for waiting ones, in cases of other schedulers and of our own, with each
// policy of reclaim.
func TestReclaimCases(t *testing.T) {
	checkCases(t, "agents | roles | running | waiting", []string{"deserved", "entitled"}, func(t *testing.T, cells []string, reclaim string) string {
		c := peerCase{t: t, policy: Policy{Roles: parseRoles(t, cells[1]), Reclaim: ReclaimPolicy(reclaim)}}
		c.policy.SetDefaults()
		if err := c.policy.Validate(); err != nil {
			t.Fatal(err)
		}
		c.shares = strings.Contains(cells[2]+" "+cells[3], "0.")
		c.parseRunning(cells[2])
		c.parseWaiting(cells[3])
		ends := map[int]bool{}
		plan := c.makePlan(strings.Fields(cells[0]))
		for _, v := range plan.Preempt {
			ends[parseNumber(t, strings.TrimPrefix(v.TaskID[:strings.Index(v.TaskID, ".")], "r"))] = true
		}
		return joinNumbers(slices.Sorted(maps.Keys(ends)))
	})
}

// TestEntitlementCases checks what roles are entitled to, in whole units, for those that the other scheduler's test has.
func TestEntitlementCases(t *testing.T) {
	checkCases(t, "capacity | roles | demand", []string{"ours"}, func(t *testing.T, cells []string, _ string) string {
		claims := map[string]*entitlement.Claim{}
		for _, r := range parseRoles(t, cells[1]) {
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
			claims[role].Demand = parseNumber(t, demand) * quota.MilliPerGPU
		}
		var list []entitlement.Claim
		for _, name := range slices.Sorted(maps.Keys(claims)) {
			list = append(list, *claims[name])
		}
		granted := entitlement.Divide(parseNumber(t, cells[0])*quota.MilliPerGPU, list)
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
	checkCases(t, "roles | running | waiting", []string{"ours"}, func(t *testing.T, cells []string, _ string) string {
		roles := parseRoles(t, cells[0])
		usage := quota.NewTracker(queue.Entitlements(roles), nil)
		place := func(role, gpus string) {
			usage.AddUsage(role, map[string]int{"V100": parseNumber(t, gpus)}, nil, 1)
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

// parseNumber parses a number of a case.
func parseNumber(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// joinNumbers returns numbers with spaces between, "none" for none.
func joinNumbers(numbers []int) string {
	if len(numbers) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(numbers), "[]")
}

// parseRoles parses NAME=DESERVED≤LIMIT*WEIGHT. DESERVED is GPUs, GPUs of a type, or GPUs/CPUs/GIB.
func parseRoles(t *testing.T, text string) (roles []queue.Role) {
	for _, r := range strings.Fields(text) {
		entries, weight, weighted := strings.Cut(r, "*")
		entries, limit, limited := strings.Cut(entries, "≤")
		name, deserved, deserves := strings.Cut(entries, "=")
		role := queue.Role{Name: name}
		if deserves {
			gpus, cpus, gib, hosts := cutHost(t, deserved)
			count, gpuType := splitType(gpus)
			role.Deserved = quota.Quota{cmp.Or(gpuType, quota.AllTypes): parseNumber(t, count)}
			if hosts {
				role.DeservedHost = quota.HostQuota{quota.CPUs: cpus, quota.Memory: gib * 1024}
			}
		}
		if limited {
			role.Quota = quota.Quota{quota.AllTypes: parseNumber(t, limit)}
		}
		if weighted {
			w, err := strconv.ParseFloat(weight, 64)
			if err != nil {
				t.Fatal(err)
			}
			role.Weight = w
		}
		roles = append(roles, role)
	}
	return roles
}

// cutHost splits GPUS/CPUS/GIB. It returns false for a text that is only GPUs.
func cutHost(t *testing.T, text string) (gpus string, cpus, gib float64, ok bool) {
	gpus, rest, ok := strings.Cut(text, "/")
	if ok {
		c, m, _ := strings.Cut(rest, "/")
		cpus, gib = float64(parseNumber(t, c)), float64(parseNumber(t, m))
	}
	return gpus, cpus, gib, ok
}

// splitType splits a number of GPUs from the name of their type, which may be empty.
func splitType(text string) (number, gpuType string) {
	if at := strings.IndexFunc(text, unicode.IsLetter); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// peerCase is a case that a plan is made for.
type peerCase struct {
	t      *testing.T
	policy Policy
	in     PlanInput
	// shares is set if a job has a part of a GPU: then all devices of the agents are shared.
	shares bool
}

// peerDeviceMiB is the memory of each shared device in the cases.
const peerDeviceMiB = 1000

// peerDeviceID returns the UUID of a shared device.
func peerDeviceID(agent string, device int) string { return fmt.Sprintf("GPU-%s-%d", agent, device) }

// newJob returns a job with the flags !PRIORITY, + for preemptible, - for guaranteed, and g for a gang. Less than one GPU is a
// share.
func (c *peerCase) newJob(name, role string, tasks int, gpus, flags string) *job.Spec {
	s := waitingJob(name, tasks, nil).Spec
	gpus, cpus, gib, hosts := cutHost(c.t, gpus)
	if hosts {
		s.CPUs, s.MemMiB = cpus, gib*1024
	}
	count, gpuType := splitType(gpus)
	s.Role, s.Tasks = role, tasks
	if _, part, ok := strings.Cut(count, "0."); ok {
		s.Request.GPUs, s.Request.Share.MemPercent = 1, parseNumber(c.t, part)*10
	} else {
		s.Request.GPUs = parseNumber(c.t, count)
	}
	if gpuType != "" {
		s.Request.Types.Include = []string{gpuType}
	}
	s.Gang = strings.HasPrefix(flags, "g")
	s.Preemptible, s.Guaranteed = strings.HasSuffix(flags, "+"), strings.HasSuffix(flags, "-")
	if _, priority, ok := strings.Cut(strings.TrimRight(flags, "+-"), "!"); ok {
		s.Priority = parseNumber(c.t, priority)
	}
	return s
}

// splitFlags splits a text before its first flag.
func splitFlags(text string) (string, string) {
	if at := strings.IndexAny(text, "g!+-~"); at >= 0 {
		return text[:at], text[at:]
	}
	return text, ""
}

// parseRunning adds running jobs. Each has run a minute less than the one before. The flag ~ is for one that ends already.
func (c *peerCase) parseRunning(text string) {
	for i, r := range strings.Fields(text) {
		role, rest, _ := strings.Cut(r, ":")
		gpus, place, _ := strings.Cut(rest, "@")
		place, flags := splitFlags(place)
		flags, ends := strings.CutPrefix(flags, "~")
		place, device, _ := strings.Cut(place, "#")
		agents := strings.Split(place, ",")
		s := c.newJob(fmt.Sprint("r", i), role, len(agents), gpus, flags)
		s.Gang = len(agents) > 1
		for n, agent := range agents {
			task := queue.RunningTask{
				TaskID: fmt.Sprintf("r%d.%d", i, n), AgentID: "a" + agent, Spec: s, Ending: ends,
				GPUTypes: map[string]int{}, Since: planTime().Add(time.Duration(i-100) * time.Minute),
			}
			if device != "" {
				percent := int64(s.Request.Share.MemPercent)
				task.Shares = []gpu.DeviceShare{{
					UUID: peerDeviceID(task.AgentID, parseNumber(c.t, device)), Type: "V100",
					MemMiB: percent * peerDeviceMiB / 100, MilliDevices: int(percent * quota.MilliPerGPU / 100),
				}}
			} else {
				_, gpuType := splitType(gpus)
				task.GPUTypes[cmp.Or(gpuType, "V100")] = s.Request.GPUs
			}
			c.in.Running = append(c.in.Running, task)
		}
	}
}

func (c *peerCase) parseWaiting(text string) {
	for i, w := range strings.Fields(text) {
		role, rest, _ := strings.Cut(w, ":")
		tasks, rest, _ := strings.Cut(rest, "x")
		gpus, flags := splitFlags(rest)
		j := waitingJob(fmt.Sprint("w", i), parseNumber(c.t, tasks), nil)
		j.Spec = c.newJob(j.Spec.Name, role, len(j.Tasks), gpus, flags)
		c.in.Waiting = append(c.in.Waiting, j)
	}
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
				r.Shares = append(r.Shares, gpu.DeviceShare{UUID: d.UUID, Type: "V100", MemMiB: d.MemMiB, Cores: d.Cores, MilliDevices: quota.MilliPerGPU})
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
func (c *peerCase) makePlan(gpus []string) Plan {
	c.in.Now = planTime()
	total, types, amounts := map[string]int{}, map[string]string{}, map[string]fit.Amount{}
	for i, text := range gpus {
		id := fmt.Sprint("a", i)
		count, cpus, gib, hosts := cutHost(c.t, text)
		count, gpuType := splitType(count)
		total[id], types[id] = parseNumber(c.t, count), cmp.Or(gpuType, "V100")
		if amounts[id] = gpuOffer(id, 0).Free; hosts {
			amounts[id] = fit.Amount{CPUs: cpus + 1, MemMiB: gib*1024 + 1024, DiskMiB: 1000} // with executors
		}
	}
	free := maps.Clone(total)
	for i := range c.in.Running {
		r := &c.in.Running[i]
		if free[r.AgentID] -= r.Spec.Request.GPUs; free[r.AgentID] < 0 && !c.shares {
			c.t.Fatalf("agent %s has too few GPUs", r.AgentID)
		}
		left, uses := amounts[r.AgentID], queue.TaskAmount(r.Spec, c.policy.Overhead)
		amounts[r.AgentID] = fit.Amount{CPUs: left.CPUs - uses.CPUs, MemMiB: left.MemMiB - uses.MemMiB, DiskMiB: left.DiskMiB}
	}
	var shared map[string][]fit.SharedDevice
	if c.shares {
		shared = c.shareDevices(total)
	}
	var offers []fit.Offer
	for _, id := range slices.Sorted(maps.Keys(total)) {
		for _, role := range c.policy.Roles {
			o := roleOffer(role.Name, id, free[id])
			o.Free, o.Types = amounts[id], []string{types[id]}
			if c.shares {
				o.GPUs, o.Shared = 0, shared[id]
				for i := range total[id] {
					o.Inventory = append(o.Inventory, gpu.Device{UUID: peerDeviceID(id, i), Model: "V100", MemMiB: peerDeviceMiB})
				}
			}
			if role.Name == c.in.Waiting[0].Spec.Role {
				offers = append(offers, o)
			} else {
				a := WithoutFree(agentOf(o))
				if c.shares {
					a.AllShared = c.in.SharedDevices(id)
				}
				c.in.Known = append(c.in.Known, a)
			}
		}
	}
	cluster, leftoverOf := NewClusterOfOffers(pointersTo(offers), &c.in, &c.policy)
	for i := range cluster.agents {
		if a := &cluster.agents[i]; !c.shares { // GPUs that are not shared
			a.TotalGPUs = total[a.ID]
		}
	}
	return MakePlan(CachedAgents{Cluster: cluster, LeftoverOf: leftoverOf, Buffers: &PlanBuffers{}}, &c.in, &c.policy)
}
