package master

import (
	"maps"
	"slices"
	"strconv"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// Names of the attributes of GPU agents.
const (
	attrType      = "gpu_type"
	attrInventory = "gpu_inventory"
	attrDriver    = "gpu_driver"
	attrCUDA      = "gpu_cuda"
)

// convertOffer converts an offer for the scheduler.
func (c *Client) convertOffer(o *mesos.Offer) sched.Offer {
	all := sumResources(o.Resources)
	host, types := c.readHardware(o.Attributes)
	if len(host.Devices) > 0 {
		// GPUs beyond the named devices are reserved for frameworks that
		// request GPUs only by number.
		all.gpus = min(all.gpus, len(all.devices))
	}
	region, zone := faultDomain(o.Domain)
	return sched.Offer{
		ID: o.ID.Value, AgentID: o.AgentID.Value, Hostname: o.Hostname, AgentURL: c.cfg.agentURL(o.URL),
		Role: o.GetAllocationInfo().GetRole(),
		Free: all.amount, GPUs: all.gpus, DeviceIDs: all.devices, Shared: all.sharedDevices(), Ports: all.ports,
		Reserved: all.reserved, Unreserved: all.unreserved,
		Types: types, Inventory: host.Devices, Driver: host.Driver, CUDA: host.CUDA,
		Attributes: convertAttributes(o.Attributes), Region: region, Zone: zone,
		Unavailable: unavailabilityStart(o.Unavailability),
	}
}

// faultDomain returns the region and the zone of an agent, "" without a domain.
func faultDomain(d *mesos.DomainInfo) (region, zone string) {
	fault := d.GetFaultDomain()
	if fault == nil {
		return "", ""
	}
	return fault.Region.Name, fault.Zone.Name
}

// resourceTotal is the sum of plain resources.
type resourceTotal struct {
	// amount has CPUs, memory and disk; gpus is the gpus scalar.
	amount sched.Amount
	gpus   int
	// devices are the UUIDs of whole devices, ports the ranges of host ports.
	devices []string
	ports   []sched.PortRange
	// withheld are devices that are never offered but appear in lists of
	// agents.
	withheld []gpu.WithheldDevice
	// reserved and unreserved report whether there is any of each.
	reserved, unreserved bool
	// mem and cores are of shared devices, in thousandths, by UUID.
	mem, cores map[string]int64
}

// sharedDevices returns the shared devices in whole MiB and percent, sorted by
// UUID.
func (t *resourceTotal) sharedDevices() []sched.SharedDevice {
	if t.mem == nil {
		return nil
	}
	var list []sched.SharedDevice
	for _, uuid := range slices.Sorted(maps.Keys(t.mem)) {
		list = append(list, sched.SharedDevice{UUID: uuid, MemMiB: t.mem[uuid] / 1000, Cores: int(t.cores[uuid] / 1000)})
	}
	return list
}

// addShared adds a resource of a shared device. A device with cores alone has
// no memory left.
func (t *resourceTotal) addShared(name string, n int64) {
	uuid, cores, ok := gpu.ShareResource(name)
	if !ok {
		return
	}
	if t.mem == nil {
		t.mem, t.cores = map[string]int64{}, map[string]int64{}
	}
	t.mem[uuid] += 0 // sharedDevices lists the devices of mem
	if cores {
		t.cores[uuid] += n
	} else {
		t.mem[uuid] += n
	}
}

// addWithheld adds the devices that an agent does not offer. Malformed items
// are ignored.
func (t *resourceTotal) addWithheld(items []string) {
	for _, item := range items {
		if w, ok := gpu.ParseWithheld(item); ok {
			t.withheld = append(t.withheld, w)
		}
	}
}

// sumResources adds up the plain resources. It calculates in thousandths, as Mesos does, so that sums are exact.
func sumResources(resources []mesos.Resource) resourceTotal {
	var cpus, mem, disk, gpus int64
	var t resourceTotal
	for _, r := range resources {
		if !isPlainResource(r) {
			continue
		}
		if reservationDepth(r) > 0 {
			t.reserved = true
		} else {
			t.unreserved = true
		}
		n := toMilli(r.GetScalar().GetValue())
		switch r.Name {
		case "cpus":
			cpus += n
		case "mem":
			mem += n
		case "disk":
			disk += n
		case "gpus":
			gpus += n
		case "gpu_ids":
			t.devices = append(t.devices, r.GetSet().GetItem()...)
		case gpu.WithheldResource:
			t.addWithheld(r.GetSet().GetItem())
		case "ports":
			for _, p := range r.GetRanges().GetRange() {
				t.ports = append(t.ports, sched.PortRange{First: int(p.Begin), Last: int(p.End)})
			}
		default:
			t.addShared(r.Name, n)
		}
	}
	t.amount = sched.Amount{CPUs: float64(cpus) / 1000, MemMiB: float64(mem) / 1000, DiskMiB: float64(disk) / 1000}
	t.gpus = int(gpus / 1000)
	return t
}

// maxInventories bounds the cache of decoded inventories. It exceeds the
// number of agents of a cluster.
const maxInventories = 20_000

// readHardware parses the GPU attributes. Each offer of an agent has its
// inventory, which is decoded once.
func (c *Client) readHardware(attributes []mesos.Attribute) (host gpu.Host, types []string) {
	host, types, packed := parseGPUAttributes(attributes)
	if packed == "" {
		return host, types
	}
	c.inventoryMu.Lock()
	defer c.inventoryMu.Unlock()
	if known, ok := c.inventories[packed]; ok {
		return known, types
	}
	full, err := gpu.DecodeInventory(packed)
	if err != nil {
		// The types are enough. The entry is cached so that the warning is
		// logged once.
		c.cfg.Log.WithError(err).WithField("attribute", attrInventory).Warn("an agent's attribute cannot be read")
		full = host
	}
	if len(c.inventories) >= maxInventories {
		clear(c.inventories)
	}
	c.inventories[packed] = full
	return full, types
}

// parseGPUAttributes returns the attributes without decoding the inventory.
func parseGPUAttributes(attributes []mesos.Attribute) (host gpu.Host, types []string, packed string) {
	for _, a := range attributes {
		text := a.GetText().GetValue()
		switch a.Name {
		case attrType:
			types = append(types, text)
		case attrInventory:
			packed = text
		case attrDriver:
			host.Driver = versionText(a)
		case attrCUDA:
			host.CUDA = versionText(a)
		}
	}
	return host, types, packed
}

// versionText returns versions such as "535.104.05". It accepts a scalar,
// because the agent's flags turn "12.2" into a number.
func versionText(a mesos.Attribute) string {
	if a.Scalar != nil {
		return strconv.FormatFloat(a.Scalar.Value, 'f', -1, 64)
	}
	return a.GetText().GetValue()
}

// agentURL returns the base of an agent's endpoints,
// http://host:port/slave(1). http prefers the IP, which needs no name service;
// https prefers the name, for which certificates are issued. Mesos always
// writes http, also if agents use TLS.
func (c *ConnectionConfig) agentURL(u *mesos.URL) string {
	if u == nil {
		return ""
	}
	scheme, host, other := u.Scheme, u.Address.GetIP(), u.Address.GetHostname()
	if c.TLS != nil {
		scheme = "https"
	}
	if scheme == "https" {
		host, other = other, host
	}
	if host == "" {
		host = other
	}
	return scheme + "://" + joinHostPort(host, int(u.Address.Port)) + u.GetPath()
}
