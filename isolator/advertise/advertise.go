// Package advertise tells Mesos what GPUs an agent has: as resources through
// the agent's resource provider API (Run), live, or as text for its command
// line (Flags). It advertises every device it is given and decides nothing
// about who gets one.
package advertise

import (
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

// Names of the resources and attributes.
const (
	GPUs      = "gpus"
	GPUIDs    = "gpu_ids"
	Type      = "gpu_type"
	Driver    = "gpu_driver"
	CUDA      = "gpu_cuda"
	Memory    = "gpu_memory"
	Inventory = "gpu_inventory"
)

// Resources gives the scalar gpus and the set gpu_ids, in the name of a
// provider unless providerID is empty. A host without GPUs has none.
func Resources(h gpu.Host, providerID string) []mesos.Resource {
	if len(h.Devices) == 0 {
		return nil
	}
	ids := make([]string, len(h.Devices))
	for i, d := range h.Devices {
		ids[i] = d.UUID
	}
	list := []mesos.Resource{
		{Name: GPUs, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: float64(len(ids))}},
		{Name: GPUIDs, Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: ids}},
	}
	if providerID != "" {
		for i := range list {
			list[i].ProviderID = &mesos.ResourceProviderID{Value: providerID}
		}
	}
	return list
}

// Attributes names the hardware: each type once, driver and CUDA version, the
// smallest device's memory in MiB, and the inventory. A host without GPUs has
// none.
func Attributes(h gpu.Host) []mesos.Attribute {
	if len(h.Devices) == 0 {
		return nil
	}
	var list []mesos.Attribute
	for _, t := range h.Types() {
		list = append(list, text(Type, t))
	}
	smallest := h.Devices[0].MemMiB
	for _, d := range h.Devices {
		smallest = min(smallest, d.MemMiB)
	}
	list = append(list, text(Driver, h.Driver), text(CUDA, h.CUDA), mesos.Attribute{
		Name: Memory, Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: float64(smallest)},
	})
	// Encoding a Host into memory fails only where memory does; the agent is
	// then still served by its type, as a stock one.
	if inventory, err := gpu.EncodeInventory(h); err == nil {
		list = append(list, text(Inventory, inventory))
	}
	return list
}

func text(name, value string) mesos.Attribute {
	return mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}}
}

// Flags gives the texts for a Mesos agent's --resources and --attributes.
// Mesos takes a value that reads as a number for a scalar, so that gpu_cuda
// ("12.2") arrives as one, and takes the spaces out of "RTX 3090": readers of
// attributes must accept both, or read the inventory, which stays as it is.
func Flags(h gpu.Host) (resources, attributes string) {
	var parts []string
	for _, r := range Resources(h, "") {
		switch r.GetType() {
		case mesos.SCALAR:
			parts = append(parts, r.Name+":"+number(r.Scalar.Value))
		case mesos.SET:
			parts = append(parts, r.Name+":{"+strings.Join(r.Set.Item, ",")+"}")
		}
	}
	resources, parts = strings.Join(parts, ";"), nil
	for _, a := range Attributes(h) {
		if a.Type == mesos.SCALAR {
			parts = append(parts, a.Name+":"+number(a.Scalar.Value))
		} else {
			parts = append(parts, a.Name+":"+a.Text.Value)
		}
	}
	return resources, strings.Join(parts, ";")
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
