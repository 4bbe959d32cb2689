package master

import (
	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// frameworkInfo returns the FrameworkInfo of SUBSCRIBE and UPDATE_FRAMEWORK.
func (c *ConnectionConfig) frameworkInfo(id string, roles []string) *mesos.FrameworkInfo {
	timeout, checkpoint := c.FailoverTimeout.Seconds(), true
	info := &mesos.FrameworkInfo{
		User: c.User, Name: c.Name, Roles: roles,
		Principal: optionalString(c.Credential.Principal), WebUiURL: optionalString(c.WebURL),
		FailoverTimeout: &timeout, Checkpoint: &checkpoint, OfferFilters: c.offerFilters(roles),
		Capabilities: []mesos.FrameworkInfo_Capability{
			{Type: mesos.FrameworkInfo_Capability_GPU_RESOURCES},
			{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE},
			{Type: mesos.FrameworkInfo_Capability_PARTITION_AWARE},
			{Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE},
			{Type: mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT},
		},
	}
	if id != "" {
		info.ID = &mesos.FrameworkID{Value: id}
	}
	return info
}

// offerFilters filters offers that are too small for any task. Mesos 1.11 also
// supports constraints on attributes, which mesos-go does not.
func (c *ConnectionConfig) offerFilters(roles []string) map[string]mesos.OfferFilters {
	least := map[string]mesos.Value_Scalar{}
	for name, amount := range map[string]float64{"cpus": c.MinOffer.CPUs, "mem": c.MinOffer.MemMiB, "disk": c.MinOffer.DiskMiB} {
		if amount > 0 {
			least[name] = mesos.Value_Scalar{Value: amount}
		}
	}
	if len(least) == 0 {
		return nil
	}
	filters := map[string]mesos.OfferFilters{}
	for _, role := range roles {
		filters[role] = mesos.OfferFilters{MinAllocatableResources: &mesos.OfferFilters_MinAllocatableResources{
			Quantities: []mesos.OfferFilters_ResourceQuantities{{Quantities: least}},
		}}
	}
	return filters
}

// optionalString returns nil for "".
func optionalString(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
