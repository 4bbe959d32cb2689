// Package advertise tells Mesos what ResourceGPUs an agent has: as resources through
// the agent's resource provider API (Run), live, or as text for its command
// line (Machine.Flags). It advertises every device it is given and decides
// nothing about who gets one.
package advertise

import (
	"slices"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/layout"
)

// Names of the resources and attributes.
const (
	ResourceGPUs       = "gpus"
	ResourceGPUIDs     = "gpu_ids"
	AttributeType      = "gpu_type"
	AttributeDriver    = "gpu_driver"
	AttributeCUDA      = "gpu_cuda"
	AttributeMemory    = "gpu_memory"
	AttributeInventory = "gpu_inventory"
	// AttributeShareLimit names what holds tasks to their parts of shared devices, a
	// gpu.EnforcementMethod.
	AttributeShareLimit = "gpu_share_limit"
)

// MachineGPUs is what one machine has to advertise.
type MachineGPUs struct {
	// Host has the devices that go by name, whole ResourceGPUs and MIG devices alike:
	// each counts 1.
	Host gpu.Host
	// Stock are the devices that go by count, for frameworks that know no
	// names. They are resources of the agent's own, never the provider's.
	Stock []gpu.Device
	// Role, unless empty, is the one role that the devices with names are
	// reserved for: no framework of another role can take their scalar and
	// leave the names.
	Role string
	// Shared are the devices with names that are advertised in parts, and as
	// how much of each: instead of counting 1 each is two scalars of its own.
	Shared []gpu.DeviceShare
	// Withheld are devices that are not advertised, and why; a provider alone
	// tells them.
	Withheld []gpu.WithheldDevice
	// AttributeShareLimit, where set, is what holds tasks to their parts.
	ShareLimit gpu.EnforcementMethod
	// repartitioned stands for what ResourceGPUs are cut into, whatever that is: see Cut.
	repartitioned []gpu.Device
}

// MarkRepartitioned says that a GPU in MIG mode is cut anew while the agent runs. Attributes
// stand: they tell its type and the memory of the smallest slice that there can
// be, and leave its slices out of the inventory.
func (m *MachineGPUs) MarkRepartitioned(whole gpu.Device, profiles []layout.InstanceProfile) {
	m.Host.Devices = slices.DeleteFunc(slices.Clone(m.Host.Devices), func(d gpu.Device) bool { return d.MIG != nil && d.MIG.Parent == whole.UUID })
	for _, p := range profiles {
		whole.MemMiB = min(whole.MemMiB, p.MemMiB)
	}
	m.repartitioned = append(m.repartitioned, whole)
}

// HostAttributes are those of a machine all of whose ResourceGPUs go by name.
func HostAttributes(h gpu.Host) []mesos.Attribute { return MachineGPUs{Host: h}.Attributes() }

// Resources gives the scalar gpus and the set gpu_ids of the devices with
// names, and the scalars of each shared one, in the name of a provider unless
// providerIDMessage is empty; a provider tells what is withheld, too. Without such
// devices there are none.
func (m MachineGPUs) Resources(providerID string) []mesos.Resource {
	var ids []string
	for _, d := range m.Host.Devices {
		if !slices.ContainsFunc(m.Shared, func(p gpu.DeviceShare) bool { return p.UUID == d.UUID }) {
			ids = append(ids, d.UUID)
		}
	}
	return m.buildResources(ids, len(ids), providerID)
}

// buildResources has a count of its own: of what tasks hold, the scalar counts
// also what is not offered any more.
func (m MachineGPUs) buildResources(ids []string, gpus int, providerID string) []mesos.Resource {
	var list []mesos.Resource
	if gpus > 0 {
		list = append(list, scalarResource(ResourceGPUs, float64(gpus)))
	}
	if len(ids) > 0 {
		list = append(list, mesos.Resource{Name: ResourceGPUIDs, Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: ids}})
	}
	for _, p := range m.Shared {
		list = append(list, scalarResource(gpu.MemResource(p.UUID), float64(p.MemMiB)), scalarResource(gpu.CoresResource(p.UUID), float64(p.Cores)))
	}
	for i := range list {
		if m.Role != "" && m.Role != "*" {
			setReservation(&list[i], m.Role)
		}
	}
	if providerID == "" {
		return list
	}
	if len(m.Withheld) > 0 {
		list = append(list, withheldResource(m.Withheld))
	}
	for i := range list {
		list[i].ProviderID = &mesos.ResourceProviderID{Value: providerID}
	}
	return list
}

func setReservation(r *mesos.Resource, role string) {
	r.Reservations = []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &role}}
}

// withheldResource tells which devices are not offered. It is offered to nobody itself:
// who took it would gain nothing, and its change would be a task's affair.
func withheldResource(devices []gpu.WithheldDevice) mesos.Resource {
	set := &mesos.Value_Set{}
	for _, d := range devices {
		set.Item = append(set.Item, d.SetItem())
	}
	r := mesos.Resource{Name: gpu.WithheldResource, Type: mesos.SET.Enum(), Set: set}
	setReservation(&r, gpu.WithheldRole)
	return r
}

func scalarResource(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// Attributes names the hardware, stock devices too: each type once, driver
// and AttributeCUDA version, the smallest device's memory in MiB; and the inventory of
// the devices with names, if there are any. A machine without ResourceGPUs has none.
func (m MachineGPUs) Attributes() []mesos.Attribute {
	all := gpu.Host{Devices: slices.Concat(m.Host.Devices, m.repartitioned, m.Stock)}
	if len(all.Devices) == 0 {
		return nil
	}
	var list []mesos.Attribute
	for _, t := range all.Types() {
		list = append(list, textAttribute(AttributeType, t))
	}
	smallest := all.Devices[0].MemMiB
	for _, d := range all.Devices {
		smallest = min(smallest, d.MemMiB)
	}
	list = append(list, textAttribute(AttributeDriver, m.Host.Driver), textAttribute(AttributeCUDA, m.Host.CUDA), mesos.Attribute{
		Name: AttributeMemory, Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: float64(smallest)},
	})
	if m.ShareLimit != "" {
		list = append(list, textAttribute(AttributeShareLimit, string(m.ShareLimit)))
	}
	if len(m.Host.Devices) == 0 {
		return list
	}
	// Encoding a Host into memory fails only where memory does; the agent is
	// then still served by its type, as a stock one.
	if inventory, err := gpu.EncodeInventory(trimForOffers(m.Host)); err == nil {
		list = append(list, textAttribute(AttributeInventory, inventory))
	}
	return list
}

// trimForOffers is what of a host goes into every offer. The paths over PCIe, one
// a pair of devices, would be most of it; NUMA nodes say nearly as much.
func trimForOffers(h gpu.Host) gpu.Host {
	devices := make([]gpu.Device, len(h.Devices))
	for i, d := range h.Devices {
		d.Paths = nil
		devices[i] = d
	}
	h.Devices = devices
	return h
}

func textAttribute(name, value string) mesos.Attribute {
	return mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}}
}

// AgentFlags gives the texts for a Mesos agent's --resources and --attributes.
// Beside a provider, which brings the devices with names, the resources are
// the stock devices alone, and never empty: Mesos's own count of ResourceGPUs would
// take their place. Mesos takes an attribute that reads as a number for a
// scalar, so that gpu_cuda ("12.2") arrives as one: readers of attributes
// must accept both, or read the inventory, which stays as it is. Spaces, as in
// "RTX 3090", Mesos would take out; a shell would part words there.
func (m MachineGPUs) AgentFlags(provider bool) (resources, attributes string) {
	var parts []string
	if !provider {
		for _, r := range m.Resources("") {
			parts = append(parts, m.resourceFlag(r))
		}
	}
	if provider || len(m.Stock) > 0 {
		parts = append(parts, ResourceGPUs+":"+strconv.Itoa(len(m.Stock)))
	}
	resources, parts = strings.Join(parts, ";"), nil
	for _, a := range m.Attributes() {
		if a.Type == mesos.SCALAR {
			parts = append(parts, a.Name+":"+formatNumber(a.Scalar.Value))
		} else {
			parts = append(parts, a.Name+":"+strings.ReplaceAll(a.Text.Value, " ", ""))
		}
	}
	return resources, strings.Join(parts, ";")
}

// resourceFlag is one resource in Mesos's notation: gpus:2, gpu_ids(role):{a,b}. The
// agent adds up scalars of one name and role.
func (m MachineGPUs) resourceFlag(r mesos.Resource) string {
	name := r.Name
	if len(r.Reservations) > 0 {
		name += "(" + m.Role + ")"
	}
	if r.GetType() == mesos.SCALAR {
		return name + ":" + formatNumber(r.Scalar.Value)
	}
	return name + ":{" + strings.Join(r.Set.Item, ",") + "}"
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
