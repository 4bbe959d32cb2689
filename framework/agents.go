package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// fields are what constraints compare of the agents that the master listed
// last, by the names that they have there.
type fields struct {
	byAgent atomic.Pointer[map[string]map[string]string]
}

func (f *fields) learn(agents []master.Agent) {
	all := make(map[string]map[string]string, len(agents))
	for i := range agents {
		a := &agents[i]
		of := map[string]string{}
		for _, at := range slices.Backward(a.Attributes) { // the first of a name counts
			of[at.Name] = at.Value
		}
		of["@region"], of["@zone"], of["@driver"] = a.Region, a.Zone, a.Host.Driver
		all[a.ID] = of
	}
	f.byAgent.Store(&all)
}

func (f *fields) of(agentID string) map[string]string {
	if all := f.byAgent.Load(); all != nil {
		return (*all)[agentID]
	}
	return nil
}

// list asks the master for its agents. Others may get the same ones.
func (r *reader) list(ctx context.Context) ([]master.Agent, error) {
	agents, err := r.rounds.ask(ctx, r.ordered)
	if err != nil {
		return nil, unlisted(err)
	}
	return agents, nil
}

// unlisted says that no master told of its agents. Of a request that got
// nowhere people need the address, and not how it was made.
func unlisted(err error) *api.Problem {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return api.Problemf(http.StatusBadGateway, "the scheduler reaches no Mesos master: %v: start one, or name another by the scheduler's --master", u.Err)
	}
	return api.Problemf(http.StatusBadGateway, "%v", err)
}

func (r *reader) ordered(ctx context.Context) ([]master.Agent, error) {
	agents, err := r.client.Agents(ctx)
	slices.SortFunc(agents, func(x, y master.Agent) int {
		return cmp.Or(cmp.Compare(x.Hostname, y.Hostname), cmp.Compare(x.ID, y.ID))
	})
	return agents, err
}

func (r *reader) Agents(ctx context.Context) ([]api.Agent, error) {
	agents, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	var views []api.Agent
	cordons := r.view.cordons()
	for _, a := range agents {
		views = append(views, agentOf(&a, cordons))
	}
	return views, nil
}

func agentOf(a *master.Agent, cordons map[string]sched.Cordoned) api.Agent {
	cordon, _ := sched.CordonedBy(cordons, a.Hostname, a.ID)
	return api.Agent{
		Cordoned: cordon.Reason, Draining: a.Draining || cordon.Drain,
		ID: a.ID, Hostname: a.Hostname, URL: a.URL, Types: typesOf(a), GPUs: a.GPUs, GPUsFree: a.GPUsFree, Shared: sharedGPUs(a),
		CPUs: a.CPUs, MemMiB: a.MemMiB, Driver: a.Host.Driver, CUDA: a.Host.CUDA, Simulated: a.Host.Simulated,
	}
}

func (r *reader) Agent(ctx context.Context, id string) (api.AgentView, error) {
	agents, err := r.list(ctx)
	if err != nil {
		return api.AgentView{}, err
	}
	at := slices.IndexFunc(agents, func(a master.Agent) bool { return a.ID == id })
	if at < 0 {
		return api.AgentView{}, api.Problemf(http.StatusNotFound, "the master lists no agent %q", id)
	}
	a := &agents[at]
	cordons := r.view.cordons()
	cordon, _ := sched.CordonedBy(cordons, a.Hostname, a.ID)
	return api.AgentView{Agent: agentOf(a, cordons), Devices: append([]gpu.Device{}, a.Host.Devices...), Tag: cordonTag(cordon)}, nil
}

// stateOf is a device's, "" where the agent does not offer GPUs by name. Of
// such an agent every GPU that it offers has one.
func stateOf(a *master.Agent, uuid string) api.GPUState {
	shared := slices.ContainsFunc(a.Shared, func(s sched.Shared) bool { return s.UUID == uuid })
	switch {
	case uuid == "" || !byName(a):
		return ""
	case !shared && !slices.Contains(a.DeviceIDs, uuid):
		return api.WithheldGPU
	case slices.Contains(a.DevicesHeld, uuid):
		return api.HeldGPU
	default:
		return api.FreeGPU
	}
}

// byName tells that an agent offers its GPUs by name. It counts those besides
// that it withholds while tasks hold them still.
func byName(a *master.Agent) bool {
	more := a.GPUs - len(a.DeviceIDs)
	return more >= 0 && more <= len(a.Withheld)
}

// withheldOf is what the agent says of a device that it does not offer, nil
// where it says nothing.
func withheldOf(a *master.Agent, uuid string) *gpu.Withheld {
	at := slices.IndexFunc(a.Withheld, func(w gpu.Withheld) bool { return w.UUID == uuid })
	if at < 0 {
		return nil
	}
	return &a.Withheld[at]
}

// typesOf are the agent's types, from its inventory if it has one.
func typesOf(a *master.Agent) []string {
	if types := a.Host.Types(); len(types) > 0 {
		return types
	}
	return append([]string{}, a.Types...)
}

func (r *reader) GPUs(ctx context.Context) ([]api.GPU, error) {
	agents, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	holder, cordons := r.view.holders(), r.view.cordons()
	var all []api.GPU
	for _, a := range agents {
		agent := agentOf(&a, cordons)
		for _, d := range devicesOf(&a) {
			g := api.GPU{
				UUID: d.UUID, Model: d.Model, Type: d.Type(), MemMiB: d.MemMiB,
				Agent: a.ID, Hostname: a.Hostname, Task: holder[d.UUID], Shared: sharedOf(&a, d.UUID), State: stateOf(&a, d.UUID),
			}
			g.Reason, g.Note = reasonOf(&g, &agent, withheldOf(&a, d.UUID))
			all = append(all, g)
		}
	}
	return all, nil
}

// reasonOf says what is to know of a GPU beside its state. What concerns it
// alone goes before what concerns its agent.
func reasonOf(g *api.GPU, a *api.Agent, w *gpu.Withheld) (api.GPUReason, string) {
	switch {
	case g.State == api.WithheldGPU && w != nil && w.Cause == gpu.Sick:
		return api.Sick, why("GPU is sick", w.Note)
	case g.State == api.WithheldGPU && w != nil:
		return api.Cordoned, why("GPU is cordoned", w.Note)
	case g.State == api.WithheldGPU:
		return api.NotOffered, "sick, or cordoned there: mesos-gpu agent devices on its agent says which"
	case g.State == api.HeldGPU && g.Task == "" && g.Shared == nil:
		return api.Foreign, "held by another framework"
	case a.Draining:
		return api.AgentDraining, why("agent is being drained", a.Cordoned)
	case a.Cordoned != "":
		return api.Cordoned, why("agent is cordoned", a.Cordoned)
	}
	return "", ""
}

// why adds a reason, where somebody gave one.
func why(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// sharedOf tells what is free of a device that tasks share, nil of others.
func sharedOf(a *master.Agent, uuid string) *api.Shared {
	named := func(s sched.Shared) bool { return s.UUID == uuid }
	all, free := slices.IndexFunc(a.Shared, named), slices.IndexFunc(a.SharedFree, named)
	if uuid == "" || all < 0 || free < 0 {
		return nil
	}
	s := api.Shared{MemMiB: a.Shared[all].MemMiB, Cores: a.Shared[all].Cores, Limit: fit.LimitOf(a.Attributes)}
	s.MemFreeMiB, s.CoresFree = a.SharedFree[free].MemMiB, a.SharedFree[free].Cores
	return &s
}

// sharedGPUs sums up the devices that tasks share, nil where there are none.
func sharedGPUs(a *master.Agent) *api.SharedGPUs {
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

// devicesOf lists an agent's GPUs as well as it tells them: by inventory, by
// the names in its resources, or as so many.
func devicesOf(a *master.Agent) []gpu.Device {
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
	slices.Sort(names) // pages need one order, whatever is withheld
	devices := make([]gpu.Device, max(a.GPUs, len(names)))
	for i := range devices {
		devices[i].Model = model
		if i < len(names) {
			devices[i].UUID = names[i]
		}
	}
	return devices
}

// strangeTypes are the names in a wish that NVIDIA gave to nothing.
func strangeTypes(t gpu.Types) []string {
	return slices.DeleteFunc(append(slices.Clone(t.Include), t.Exclude...), gpu.Known)
}

// typeCounts are the types of the agents' GPUs, and how many there are of each.
func typeCounts(agents []master.Agent) map[string]int {
	count := map[string]int{}
	for i := range agents {
		for _, d := range devicesOf(&agents[i]) {
			count[d.Type()]++
		}
		for _, t := range typesOf(&agents[i]) {
			count[gpu.TypeOf(t)] += 0 // there, though nobody says how many
		}
	}
	delete(count, "")
	return count
}

// refuseTypes says which name neither NVIDIA nor any agent knows.
func refuseTypes(strange []string, agents []master.Agent) error {
	for _, name := range strange {
		wish := gpu.Types{Include: []string{name}}
		if !hasType(agents, wish) {
			return fmt.Errorf("gpu_type %q: no agent has it and NVIDIA makes none of that name; this cluster has %s", name, inventory(typeCounts(agents)))
		}
	}
	return nil
}

func hasType(agents []master.Agent, wish gpu.Types) bool {
	return slices.ContainsFunc(agents, func(a master.Agent) bool {
		return slices.ContainsFunc(typesOf(&a), wish.Match) ||
			slices.ContainsFunc(a.Host.Devices, func(d gpu.Device) bool { return wish.Match(d.Model) })
	})
}

// inventory reads "V100 (4), K80 (1)".
func inventory(count map[string]int) string {
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

// cordonTag is of what an operator has said of an agent. The time is read as
// it is recorded.
func cordonTag(c sched.Cordoned) string { return api.Tag(c) }
