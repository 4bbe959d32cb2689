package clusterview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job/editdistance"
)

// AgentFieldCache holds the fields of the agents that constraints compare, by name,
// as of the master's last list.
type AgentFieldCache struct {
	byAgent atomic.Pointer[map[string]map[string]string]
}

// UpdateAgents replaces the fields of all agents.
func (f *AgentFieldCache) UpdateAgents(agents []master.ListedAgent) {
	all := make(map[string]map[string]string, len(agents))
	for i := range agents {
		a := &agents[i]
		fields := map[string]string{}
		for _, attribute := range slices.Backward(a.Attributes) { // the first attribute of a name has precedence
			fields[attribute.Name] = attribute.Value
		}
		fields["@region"], fields["@zone"], fields["@driver"] = a.Region, a.Zone, a.Host.Driver
		all[a.ID] = fields
	}
	f.byAgent.Store(&all)
}

// FieldsOf returns an agent's fields, nil if the agent is not in the last list. The map
// must not be modified.
func (f *AgentFieldCache) FieldsOf(agentID string) map[string]string {
	if all := f.byAgent.Load(); all != nil {
		return (*all)[agentID]
	}
	return nil
}

// SortedAgents requests the agents from the master. The slice may be shared and must
// not be modified.
func (r *Reader) SortedAgents(ctx context.Context) ([]master.ListedAgent, error) {
	return r.sortedAgents(ctx, false)
}

// sortedAgents is SortedAgents. A request for a later page may get the agents of the first page.
func (r *Reader) sortedAgents(ctx context.Context, laterPage bool) ([]master.ListedAgent, error) {
	agents, err := r.lister.listAgents(ctx, laterPage, r.fetchSortedAgents)
	if err != nil {
		return nil, agentListProblem(err)
	}
	return agents, nil
}

// agentListProblem returns the problem for a failed request to the master. Of a
// connection error it keeps the address and drops the HTTP method and path.
func agentListProblem(err error) *api.Problem {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return api.NewProblemf(http.StatusBadGateway, "the scheduler reaches no Mesos master: %v: start one, or name another by the scheduler's --master", u.Err)
	}
	return api.NewProblemf(http.StatusBadGateway, "%v", err)
}

// fetchSortedAgents requests the agents and sorts them by host name, then ID.
func (r *Reader) fetchSortedAgents(ctx context.Context) ([]master.ListedAgent, error) {
	agents, err := r.Client.ListAgents(ctx)
	slices.SortFunc(agents, func(x, y master.ListedAgent) int {
		return cmp.Or(cmp.Compare(x.Hostname, y.Hostname), cmp.Compare(x.ID, y.ID))
	})
	return agents, err
}

// ListAgents returns the master's agents, sorted, with their cordon states.
func (r *Reader) ListAgents(ctx context.Context, laterPage bool) ([]api.AgentSummary, error) {
	agents, err := r.sortedAgents(ctx, laterPage)
	if err != nil {
		return nil, err
	}
	var views []api.AgentSummary
	cordons, strays := r.Model.CordonedHosts(), r.Model.StrayAttempts()
	for _, a := range agents {
		view := agentView(&a, cordons)
		addStrays(&view, &a, strays)
		views = append(views, view)
	}
	return views, nil
}

// addStrays adds to the view of an agent the attempts there that no job owns any more. The GPUs that they hold are not free,
// also if Mesos offers them.
func addStrays(view *api.AgentSummary, a *master.ListedAgent, all []sched.StrayAttempt) {
	for i := range all {
		t := &all[i].Task
		if t.AgentID != a.ID {
			continue
		}
		view.Strays = append(view.Strays, api.StrayTask{Task: t.ID, Role: all[i].Role, Since: all[i].Since, Runs: all[i].Runs, GPUs: t.DeviceIDs})
		for _, id := range t.DeviceIDs {
			if slices.Contains(a.DeviceIDs, id) && !slices.Contains(a.DevicesHeld, id) {
				view.GPUsFree = max(view.GPUsFree-1, 0)
			}
		}
	}
}

// agentView returns the API's view of an agent, whose cordon is looked up by host name and ID.
func agentView(a *master.ListedAgent, cordons map[string]sched.CordonState) api.AgentSummary {
	cordon, _ := sched.FindCordon(cordons, a.Hostname, a.ID)
	return api.AgentSummary{
		Cordoned: cordon.Reason, Draining: a.Draining || cordon.Drain,
		ID: a.ID, Hostname: a.Hostname, URL: a.URL, Types: gpuTypesOf(a), GPUs: a.GPUs, GPUsFree: a.GPUsFree, Shared: sumSharedGPUs(a),
		CPUs: a.CPUs, MemMiB: a.MemMiB, Driver: a.Host.Driver, CUDA: a.Host.CUDA, Simulated: a.Host.Simulated,
	}
}

// GetAgent returns an agent with its devices; 404 if the master does not list it.
func (r *Reader) GetAgent(ctx context.Context, id string) (api.AgentDetail, error) {
	agents, err := r.SortedAgents(ctx)
	if err != nil {
		return api.AgentDetail{}, err
	}
	at := slices.IndexFunc(agents, func(a master.ListedAgent) bool { return a.ID == id })
	if at < 0 {
		return api.AgentDetail{}, api.NewProblemf(http.StatusNotFound, "the master lists no agent %q", id).WithCode(api.CodeAgentNotFound, id)
	}
	a := &agents[at]
	cordons := r.Model.CordonedHosts()
	cordon, _ := sched.FindCordon(cordons, a.Hostname, a.ID)
	view := agentView(a, cordons)
	addStrays(&view, a, r.Model.StrayAttempts())
	return api.AgentDetail{AgentSummary: view, Devices: append([]gpu.Device{}, a.Host.ExpandPaths()...), ETag: CordonTag(cordon)}, nil
}

// gpuStateOf returns the state of a device, or "" if the agent does not offer its
// GPUs by name.
func gpuStateOf(a *master.ListedAgent, uuid string) api.GPUState {
	shared := slices.ContainsFunc(a.Shared, func(s sched.SharedDevice) bool { return s.UUID == uuid })
	switch {
	case uuid == "" || !namesItsGPUs(a):
		return ""
	case !shared && !slices.Contains(a.DeviceIDs, uuid):
		return api.WithheldGPU
	case slices.Contains(a.DevicesHeld, uuid), shared && isAllShared(a, uuid):
		return api.HeldGPU
	default:
		return api.FreeGPU
	}
}

// isAllShared reports whether tasks hold all of a shared device.
func isAllShared(a *master.ListedAgent, uuid string) bool {
	at := slices.IndexFunc(a.SharedFree, func(s sched.SharedDevice) bool { return s.UUID == uuid })
	return at >= 0 && a.SharedFree[at].MemMiB == 0 && a.SharedFree[at].Cores == 0
}

// namesItsGPUs reports whether an agent offers its GPUs by name. The agent's count may
// also include withheld GPUs that tasks still hold.
func namesItsGPUs(a *master.ListedAgent) bool {
	more := a.GPUs - len(a.DeviceIDs)
	return more >= 0 && more <= len(a.Withheld)
}

// findWithheld returns the agent's record of a device that it withholds, nil if it
// has none.
func findWithheld(a *master.ListedAgent, uuid string) *gpu.WithheldDevice {
	at := slices.IndexFunc(a.Withheld, func(w gpu.WithheldDevice) bool { return w.UUID == uuid })
	if at < 0 {
		return nil
	}
	return &a.Withheld[at]
}

// gpuTypesOf returns the agent's GPU types, from its inventory if it has one.
func gpuTypesOf(a *master.ListedAgent) []string {
	if types := a.Host.Types(); len(types) > 0 {
		return types
	}
	return append([]string{}, a.Types...)
}

// ListGPUs returns the GPUs of all agents with their states and the tasks that hold them.
func (r *Reader) ListGPUs(ctx context.Context, laterPage bool) ([]api.GPUView, error) {
	agents, err := r.sortedAgents(ctx, laterPage)
	if err != nil {
		return nil, err
	}
	holder, cordons := r.Model.DeviceHolders(), r.Model.CordonedHosts()
	var all []api.GPUView
	for _, a := range agents {
		agent := agentView(&a, cordons)
		for _, d := range devicesOf(&a) {
			g := api.GPUView{
				UUID: d.UUID, Model: d.Model, Type: d.Type(), MemMiB: d.MemMiB, PCI: d.PCI,
				Agent: a.ID, Hostname: a.Hostname, Task: holder[d.UUID], Shared: sharedGPUOf(&a, d.UUID), State: gpuStateOf(&a, d.UUID),
			}
			g.Reason, g.Note = gpuReasonOf(&g, &agent, findWithheld(&a, d.UUID))
			all = append(all, g)
		}
	}
	return all, nil
}

// gpuReasonOf returns the reason for a GPU's state and a text that explains it. A
// reason that concerns only the GPU has precedence over one that concerns its agent.
func gpuReasonOf(g *api.GPUView, a *api.AgentSummary, w *gpu.WithheldDevice) (api.GPUReason, string) {
	switch {
	case g.State == api.WithheldGPU && w != nil && w.Cause == gpu.WithheldUnhealthy:
		return api.ReasonUnhealthy, withReason("GPU is sick", w.Note)
	case g.State == api.WithheldGPU && w != nil && w.Cause == gpu.WithheldHeld:
		return api.ReasonHeldByContainer, withReason("a container that is no task of the agent holds it", w.Note)
	case g.State == api.WithheldGPU && w != nil:
		return api.ReasonCordoned, withReason("GPU is cordoned", w.Note)
	case g.State == api.WithheldGPU:
		return api.ReasonNotOffered, "unhealthy, or cordoned on its agent: mesos-gpu agent devices there shows which"
	case g.State == api.HeldGPU && g.Task == "" && g.Shared == nil:
		return api.ReasonForeignTask, "held by another framework"
	case a.Draining:
		return api.ReasonDraining, withReason("agent is being drained", a.Cordoned)
	case a.Cordoned != "":
		return api.ReasonCordoned, withReason("agent is cordoned", a.Cordoned)
	}
	return "", ""
}

// withReason appends the reason, if there is one.
func withReason(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// sharedGPUOf returns the free capacity of a shared device, nil for other devices.
func sharedGPUOf(a *master.ListedAgent, uuid string) *api.SharedCapacity {
	named := func(s sched.SharedDevice) bool { return s.UUID == uuid }
	all, free := slices.IndexFunc(a.Shared, named), slices.IndexFunc(a.SharedFree, named)
	if uuid == "" || all < 0 || free < 0 {
		return nil
	}
	s := api.SharedCapacity{MemMiB: a.Shared[all].MemMiB, Cores: a.Shared[all].Cores, LimitedBy: fit.ShareLimitOf(a.Attributes)}
	s.MemFreeMiB, s.CoresFree = a.SharedFree[free].MemMiB, a.SharedFree[free].Cores
	return &s
}

// sumSharedGPUs returns the totals of the devices that tasks share, nil if there are none.
func sumSharedGPUs(a *master.ListedAgent) *api.SharedGPUs {
	if len(a.Shared) == 0 {
		return nil
	}
	sum := &api.SharedGPUs{GPUs: len(a.Shared)}
	for _, s := range a.Shared {
		sum.MemMiB += s.MemMiB
	}
	for _, s := range a.SharedFree {
		sum.MemFreeMiB += s.MemMiB
	}
	return sum
}

// devicesOf lists an agent's GPUs as precisely as the agent reports them: from its
// inventory, from the names in its resources, or as unnamed devices by count.
func devicesOf(a *master.ListedAgent) []gpu.Device {
	if len(a.Host.Devices) > 0 {
		return a.Host.Devices
	}
	model := ""
	if len(a.Types) == 1 {
		model = a.Types[0]
	}
	names := slices.Clone(a.DeviceIDs)
	for _, w := range a.Withheld {
		if !slices.Contains(names, w.UUID) {
			names = append(names, w.UUID)
		}
	}
	slices.Sort(names) // pages need a stable order, even when devices are withheld
	devices := make([]gpu.Device, max(a.GPUs, len(names)))
	for i := range devices {
		devices[i].Model = model
		if i < len(names) {
			devices[i].UUID = names[i]
		}
	}
	return devices
}

// UnknownTypes returns the names in a selector that are not names of NVIDIA products.
func UnknownTypes(t gpu.TypeSelector) []string {
	return slices.DeleteFunc(append(slices.Clone(t.Include), t.Exclude...), gpu.IsKnownType)
}

// countGPUTypes returns the number of GPUs of each type; 0 if an agent reports a type without a count.
func countGPUTypes(agents []master.ListedAgent) map[string]int {
	count := map[string]int{}
	for i := range agents {
		for _, d := range devicesOf(&agents[i]) {
			count[d.Type()]++
		}
		for _, t := range gpuTypesOf(&agents[i]) {
			count[gpu.TypeOf(t)] += 0 // the number is unknown
		}
	}
	delete(count, "")
	return count
}

// CheckUnknownTypes returns an error for the first of the names that no agent has.
func CheckUnknownTypes(names []string, agents []master.ListedAgent) error {
	for _, name := range names {
		if !anyAgentHasType(agents, gpu.TypeSelector{Include: []string{name}}) {
			count := countGPUTypes(agents)
			return fmt.Errorf("gpu_type %q: no agent has it and no NVIDIA GPU has that name; this cluster has %s%s", name, formatTypeCounts(count), suggestType(name, count))
		}
	}
	return nil
}

// suggestType returns the type of this cluster that a misspelt name is nearest to, as the end of a message; "" if none is near.
func suggestType(name string, count map[string]int) string {
	if best := editdistance.Nearest(strings.ToUpper(name), slices.Sorted(maps.Keys(count))); best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ""
}

// anyAgentHasType reports whether an agent has a GPU that the selector matches.
func anyAgentHasType(agents []master.ListedAgent, types gpu.TypeSelector) bool {
	return slices.ContainsFunc(agents, func(a master.ListedAgent) bool { return slices.ContainsFunc(productsOf(&a), types.Match) })
}

// anyAgentMayHave reports whether a GPU of an agent counts in an entry with that name.
func anyAgentMayHave(agents []master.ListedAgent, name string) bool {
	counts := func(p gpu.Product) bool { return quota.CountsProduct(name, p.String()) }
	return slices.ContainsFunc(agents, func(a master.ListedAgent) bool { return slices.ContainsFunc(productsOf(&a), counts) })
}

// productsOf returns the products of an agent's GPUs, from its inventory if it has one.
func productsOf(a *master.ListedAgent) (list []gpu.Product) {
	for i := range a.Host.Devices {
		list = append(list, a.Host.Devices[i].Product())
	}
	if list != nil {
		return list
	}
	for _, name := range a.Types {
		list = append(list, gpu.Product{Model: name})
	}
	return list
}

// formatPresentTypes returns a text with the GPUs of the cluster: by product if they are of the type that a precise name is
// of, or else by short type.
func formatPresentTypes(name string, agents []master.ListedAgent) string {
	count, family := map[string]int{}, gpu.TypeOf(name)
	for i := range agents {
		for _, p := range productsOf(&agents[i]) {
			if p.Type() == family {
				count[p.Model]++
			}
		}
	}
	if len(count) == 0 {
		count = countGPUTypes(agents)
	}
	return formatTypeCounts(count)
}

// formatTypeCounts returns a text such as "V100 (4), K80 (1)", the most frequent type first.
func formatTypeCounts(count map[string]int) string {
	if len(count) == 0 {
		return "no GPU"
	}
	types := make([]string, 0, len(count))
	for t := range count {
		types = append(types, t)
	}
	slices.SortFunc(types, func(x, y string) int { return cmp.Or(cmp.Compare(count[y], count[x]), cmp.Compare(x, y)) })
	for i, t := range types {
		if count[t] > 0 {
			types[i] = fmt.Sprintf("%s (%d)", t, count[t])
		}
	}
	return strings.Join(types, ", ")
}

// CordonTag returns the ETag of an agent's cordon state.
func CordonTag(c sched.CordonState) string { return request.ComputeETag(c) }

// QuotaTypeWarnings returns a warning for each type of a quota that no agent has. It
// is not an error because operators may set quotas before they add machines.
func QuotaTypeWarnings(q quota.Quota, agents []master.ListedAgent) []string {
	var warnings []string
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch {
		case name == quota.AllTypes || anyAgentMayHave(agents, name):
		case gpu.IsKnownType(name):
			warnings = append(warnings, fmt.Sprintf("quota: no agent has %s yet; this cluster has %s", name, formatPresentTypes(name, agents)))
		default:
			count := countGPUTypes(agents)
			warnings = append(warnings, fmt.Sprintf("quota: %q bounds nothing: no agent has it and no NVIDIA GPU has that name; this cluster has %s%s",
				name, formatTypeCounts(count), suggestType(name, count)))
		}
	}
	return warnings
}

// SchedulableAgents returns the active and the draining agents of the master's list, as the scheduling core knows them.
func SchedulableAgents(list []master.ListedAgent) []sched.Agent {
	var agents []sched.Agent
	for _, a := range list {
		if a.Active || a.Draining {
			agents = append(agents, sched.Agent{
				ID:         a.ID,
				Hostname:   a.Hostname,
				URL:        a.URL,
				Total:      sched.Amount{CPUs: a.CPUs, MemMiB: a.MemMiB, DiskMiB: a.DiskMiB},
				Ports:      a.Ports,
				GPUs:       a.GPUs,
				Types:      a.Types,
				Inventory:  a.Host.Devices,
				Shared:     a.Shared,
				Draining:   a.Draining,
				Driver:     a.Host.Driver,
				CUDA:       a.Host.CUDA,
				Attributes: a.Attributes,
				Region:     a.Region,
				Zone:       a.Zone,
			})
		}
	}
	return agents
}
