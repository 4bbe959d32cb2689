package marathon

import (
	"slices"
	"strings"
)

// complete fills in the defaults that depend on other fields, and brings
// what may be written in several ways into one.
func (f *finish) complete() {
	a := f.app
	f.completeNetworks()
	if a.Role == "" {
		a.Role = f.roles[0]
	}
	for _, c := range a.Constraints {
		if len(c) > 1 {
			c[1] = strings.ToUpper(c[1])
		}
	}
	a.Constraints, a.HealthChecks = once(a.Constraints), once(a.HealthChecks)
	a.AcceptedResourceRoles, a.Dependencies = once(a.AcceptedResourceRoles), once(a.Dependencies)
	for i := range a.ReadinessChecks {
		a.ReadinessChecks[i].HTTPStatusCodesForReady = once(a.ReadinessChecks[i].HTTPStatusCodesForReady)
	}
	if a.UnreachableStrategy == nil {
		a.UnreachableStrategy = &UnreachableStrategy{}
	}
	if a.UpgradeStrategy == nil {
		a.UpgradeStrategy = &UpgradeStrategy{MaximumOverCapacity: 1, MinimumHealthCapacity: 1}
		if a.hasExternal() {
			a.UpgradeStrategy = &UpgradeStrategy{MinimumHealthCapacity: 0.5}
		}
	}
}

// once keeps the first of equal elements: Marathon holds these lists as sets.
func once[T any](list []T) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(one T) bool {
		key := text(one)
		again := seen[key]
		seen[key] = true
		return again
	})
}

func (f *finish) completeNetworks() {
	a := f.app
	if len(a.Networks) == 0 {
		a.Networks = []Network{{Mode: HostMode}}
	}
	for i := range a.Networks {
		if n := &a.Networks[i]; n.Mode == ContainerMode && n.Name == "" {
			n.Name = f.settings.DefaultNetwork
		}
	}
	if a.OnHost() {
		if a.Container != nil {
			a.Container.PortMappings = nil
		}
		return
	}
	a.RequirePorts = false
	if hasMode(a.Networks, BridgeMode) {
		for i := range a.Container.PortMappings {
			if m := &a.Container.PortMappings[i]; m.HostPort == nil {
				m.HostPort = new(int)
			}
		}
	}
}

func (a *App) hasExternal() bool {
	if a.Container == nil {
		return false
	}
	for _, v := range a.Container.Volumes {
		if v.External != nil {
			return true
		}
	}
	return false
}
