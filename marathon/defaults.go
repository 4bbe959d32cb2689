package marathon

import (
	"slices"
	"strings"
)

// fillDefaults fills in the defaults that depend on other fields, and converts values
// with several spellings to one.
func (norm *appNormalizer) fillDefaults() {
	a := norm.app
	norm.completeNetworks()
	if a.Role == "" {
		a.Role = norm.roles[0]
	}
	for _, c := range a.Constraints {
		if len(c) > 1 {
			c[1] = strings.ToUpper(c[1])
		}
	}
	a.Constraints, a.HealthChecks = uniqueItems(a.Constraints), uniqueItems(a.HealthChecks)
	a.AcceptedResourceRoles, a.Dependencies = uniqueItems(a.AcceptedResourceRoles), uniqueItems(a.Dependencies)
	for i := range a.ReadinessChecks {
		a.ReadinessChecks[i].HTTPStatusCodesForReady = uniqueItems(a.ReadinessChecks[i].HTTPStatusCodesForReady)
	}
	if a.UnreachableStrategy == nil {
		a.UnreachableStrategy = &UnreachableStrategy{}
	}
	if a.UpgradeStrategy == nil {
		a.UpgradeStrategy = &UpgradeStrategy{MaximumOverCapacity: 1, MinimumHealthCapacity: 1}
		if a.hasExternalVolume() {
			a.UpgradeStrategy = &UpgradeStrategy{MinimumHealthCapacity: 0.5}
		}
	}
}

// uniqueItems keeps the first of equal items: for Marathon these lists are sets.
func uniqueItems[T any](list []T) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(one T) bool {
		key := jsonText(one)
		again := seen[key]
		seen[key] = true
		return again
	})
}

func (norm *appNormalizer) completeNetworks() {
	a := norm.app
	if len(a.Networks) == 0 {
		a.Networks = []Network{{Mode: HostMode}}
	}
	for i := range a.Networks {
		if n := &a.Networks[i]; n.Mode == ContainerMode && n.Name == "" {
			n.Name = norm.settings.DefaultNetwork
		}
	}
	if a.UsesHostNetwork() {
		if a.Container != nil {
			a.Container.PortMappings = nil
		}
		return
	}
	a.RequirePorts = false
	if hasNetworkMode(a.Networks, BridgeMode) {
		for i := range a.Container.PortMappings {
			if m := &a.Container.PortMappings[i]; m.HostPort == nil {
				m.HostPort = new(int)
			}
		}
	}
}

func (a *App) hasExternalVolume() bool {
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
