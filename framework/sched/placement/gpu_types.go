package placement

import (
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// countGPUTypes counts the GPUs of a placement that are not shared by product. gpus is the number that the task requested.
func countGPUTypes(a *fit.AgentResources, p *fit.Placement, gpus int) map[string]int {
	if gpus == len(p.Shares) {
		return nil
	}
	products := map[string]int{}
	var last gpu.Product // most agents have one
	name := ""
	for _, id := range p.DeviceIDs {
		if one := a.ProductOf(id); one != last {
			last, name = one, one.String()
		}
		products[name]++
	}
	if n := gpus - len(p.DeviceIDs) - len(p.Shares); n > 0 { // handed out by count: one of the agent's products, "A|B"
		var all []string
		for one := range a.Products() {
			all = append(all, one.String())
		}
		slices.Sort(all)
		products[strings.Join(slices.Compact(all), "|")] += n
	}
	return products
}

// demandOfPlacedType returns the demand for tasks after the placed ones: if all GPUs must be of the same type,
// it requires the type of the places.
func demandOfPlacedType(d fit.Demand, got *JobPlacements) fit.Demand {
	if !d.Request.NeedsSameType() || len(got.Places) == 0 {
		return d
	}
	placed := ""
	for _, s := range got.Places[0].Shares {
		placed = s.Type
	}
	for name := range got.GPUTypes[0] {
		placed = gpu.TypesOf(name)
	}
	d.Request.Types = d.Request.Types.OfType(placed)
	return d
}

// gpuTypesOn lists the types of an agent's GPUs, "" for models of no known type.
func gpuTypesOn(a *fit.AgentResources) []string {
	var types []string
	for p := range a.Products() {
		if t := p.Type(); !slices.Contains(types, t) {
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
