// Package advertise advertises an agent's GPUs to Mesos: as resources through
// the agent's resource provider API (Run), or as text for the agent's command
// line (MachineGPUs.AgentFlags). It advertises every device that it is given
// and makes no allocations.
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
	// AttributeShareLimit is how shares of devices are enforced, a
	// gpu.EnforcementMethod.
	AttributeShareLimit = "gpu_share_limit"
)

// MachineGPUs contains the GPUs that one machine advertises.
type MachineGPUs struct {
	// Host has the named devices, whole GPUs and MIG devices. Each counts 1.
	Host gpu.Host
	// Stock are the devices that are advertised only by number, for frameworks
	// that do not know device names. They are the agent's own resources, never
	// the provider's.
	Stock []gpu.Device
	// Role, if not empty, reserves the named devices for one role. Otherwise a
	// framework of another role could take their scalar without their names.
	Role string
	// Shared are the named devices that are advertised in shares, with the
	// amounts. Each has two scalars of its own instead of counting 1.
	Shared []gpu.DeviceShare
	// Withheld are the devices that are not advertised, with the reasons. Only
	// a provider reports them.
	Withheld []gpu.WithheldDevice
	// ShareLimit, if not empty, is how shares are enforced.
	ShareLimit gpu.EnforcementMethod
	// repartitioned are GPUs whose MIG devices may change, see
	// MarkRepartitioned.
	repartitioned []gpu.Device
}

// MarkRepartitioned marks a GPU in MIG mode whose partitions may change at run
// time. Attributes cannot change: they have the GPU's type and the memory of
// its smallest possible slice, and the inventory does not have its slices.
func (m *MachineGPUs) MarkRepartitioned(whole gpu.Device, profiles []layout.InstanceProfile) {
	m.Host.Devices = slices.DeleteFunc(slices.Clone(m.Host.Devices), func(d gpu.Device) bool { return d.MIG != nil && d.MIG.Parent == whole.UUID })
	for _, p := range profiles {
		whole.MemMiB = min(whole.MemMiB, p.MemMiB)
	}
	m.repartitioned = append(m.repartitioned, whole)
}

// Resources returns the scalar gpus and the set gpu_ids of the named devices,
// and the scalars of each shared device. With a providerID they are that
// provider's, and include the withheld devices. Without devices the list is
// empty.
func (m MachineGPUs) Resources(providerID string) []mesos.Resource {
	var ids []string
	for _, d := range m.Host.Devices {
		if !slices.ContainsFunc(m.Shared, func(p gpu.DeviceShare) bool { return p.UUID == d.UUID }) {
			ids = append(ids, d.UUID)
		}
	}
	return m.buildResources(ids, len(ids), providerID)
}

// buildResources takes the number of gpus separately: it includes devices that
// are in use and no longer offered.
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

// withheldResource lists the devices that are not offered. It is reserved so
// that no framework is offered it: a task could not use it, and could not be
// notified of its changes.
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

// Attributes returns the attributes of all devices, including stock devices:
// each type once, the versions of driver and CUDA, and the memory of the
// smallest device in MiB, display cards excepted; and the inventory of the named devices, if there are
// any. A machine without GPUs has no attributes.
func (m MachineGPUs) Attributes() []mesos.Attribute {
	all := gpu.Host{Devices: slices.Concat(m.Host.Devices, m.repartitioned, m.Stock)}
	if len(all.Devices) == 0 {
		return nil
	}
	var list []mesos.Attribute
	for _, t := range all.Types() {
		list = append(list, textAttribute(AttributeType, t))
	}
	computing := slices.DeleteFunc(slices.Clone(all.Devices), func(d gpu.Device) bool { return (&d).Product().IsDisplayCard() })
	if len(computing) == 0 {
		computing = all.Devices
	}
	smallest := computing[0].MemMiB
	for _, d := range computing {
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
	// Encoding into memory does not fail in practice. Without the inventory
	// the agent would still be usable by its type.
	if inventory, err := gpu.EncodeInventory(m.Host.TrimPaths()); err == nil {
		list = append(list, textAttribute(AttributeInventory, inventory))
	}
	return list
}

func textAttribute(name, value string) mesos.Attribute {
	return mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: value}}
}

// AgentFlags returns the values of a Mesos agent's --resources and
// --attributes. With a provider, which advertises the named devices, the
// resources are only the stock devices, and never empty: otherwise Mesos would
// use its own count of GPUs. Mesos parses an attribute that looks like a
// number as a scalar, so gpu_cuda ("12.2") arrives as a scalar: readers must
// accept both forms, or use the inventory, which is not affected. Spaces, as
// in "RTX 3090", are removed: Mesos would remove them, and a shell would split
// the value.
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

// resourceFlag formats one resource in Mesos's notation: gpus:2,
// gpu_ids(role):{a,b}. The agent sums scalars of the same name and role.
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
