package placement

import (
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// countGPUTypes counts the GPUs of a placement that are not shared by type. gpus is the number that the task requested.
func countGPUTypes(a *fit.AgentResources, p *fit.Placement, gpus int) map[string]int {
	if gpus == len(p.Shares) {
		return nil
	}
	types := map[string]int{}
	var lastModel, lastType string // most agents have one model
	for _, id := range p.DeviceIDs {
		if model := modelOf(a, id); model != lastModel {
			lastModel, lastType = model, gpu.TypeOf(model)
		}
		types[lastType]++
	}
	if n := gpus - len(p.DeviceIDs) - len(p.Shares); n > 0 { // handed out by count: one of the agent's types, "A|B"
		all := gpuTypesOn(a)
		slices.Sort(all)
		types[strings.Join(all, "|")] += n
	}
	return types
}

// modelOf returns the model of a device of the agent, "" if it is unknown.
func modelOf(a *fit.AgentResources, uuid string) string {
	for i := range a.Inventory {
		if a.Inventory[i].UUID == uuid {
			return a.Inventory[i].Model
		}
	}
	if len(a.Types) == 1 {
		return a.Types[0]
	}
	return ""
}

// demandOfPlacedType returns the demand for tasks after the placed ones: if all GPUs must be of the same type,
// it requires the type of the places.
func demandOfPlacedType(d fit.Demand, got *JobPlacements) fit.Demand {
	if !d.Request.NeedsSameType() || len(got.Places) == 0 {
		return d
	}
	d.Request.Types.Same = false
	for _, s := range got.Places[0].Shares {
		d.Request.Types.Include = []string{s.Type}
	}
	for name := range got.GPUTypes[0] {
		d.Request.Types.Include = []string{name}
	}
	return d
}

// gpuTypesOn lists the types of an agent's GPUs, "" for models of no known type.
func gpuTypesOn(a *fit.AgentResources) []string {
	var types []string
	for m := range a.Models() {
		if t := gpu.TypeOf(m); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// describeGPUs names the types of an agent's GPUs for a decline message.
func describeGPUs(a *fit.AgentResources) string {
	types := slices.DeleteFunc(gpuTypesOn(a), func(t string) bool { return t == "" })
	switch {
	case len(types) > 0:
		return strings.Join(types, " or ")
	case a.HasGPUs():
		return "GPUs of no known type"
	default:
		return "an agent without GPUs"
	}
}
