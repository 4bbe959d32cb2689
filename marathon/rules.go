package marathon

import (
	"fmt"
	"slices"
	"strings"
)

// elementPath returns the path of a list's element, in Marathon's notation.
func elementPath(list string, i int) string { return fmt.Sprintf("%s(%d)", list, i) }

// checkOldForms checks the forms that migrateOldForms removes.
func (norm *appNormalizer) checkOldForms() {
	a := norm.app
	if a.Container != nil {
		norm.checkOldContainer(a.Container)
	}
	if ip := a.IPAddress; ip != nil {
		if ip.Discovery != nil && a.Container != nil && a.Container.Type == DockerType {
			norm.addError("/ipAddress", "discovery is not for DOCKER containers: use container.portMappings")
		}
		if len(a.Networks) > 0 {
			norm.addError("/", "ipAddress and networks are equivalent: remove ipAddress")
		}
		if len(a.Ports) > 0 || len(a.PortDefinitions) > 0 {
			norm.addError("/", "an app with ipAddress has no ports and no portDefinitions")
		}
	}
	if len(a.URIs) > 0 && len(a.Fetch) > 0 {
		norm.addError("/uris", "uris and fetch are equivalent: remove uris")
	}
	if dup := firstDuplicate(a.Ports); dup != 0 {
		norm.addError("/", "port %d occurs twice in ports", dup)
		a.Ports[slices.Index(a.Ports, dup)] = 0 // so that it is reported once
	}
	if a.Ports != nil && a.PortDefinitions != nil && !slices.EqualFunc(a.Ports, a.PortDefinitions, func(p int, d PortDefinition) bool { return p == d.Port }) {
		norm.addError("/", "ports and portDefinitions contradict each other: remove ports")
	}
}

func (norm *appNormalizer) checkOldContainer(c *Container) {
	d := c.Docker
	if d == nil {
		return
	}
	norm.checkUniqueNames("/container/docker/portMappings", d.PortMappings)
	if d.Network != "" && len(norm.app.Networks) > 0 {
		norm.addError("/", "container.docker.network and networks are equivalent: remove container.docker.network")
	}
	if c.Type != MesosType {
		return
	}
	if d.Network != "" {
		norm.addError("/container/docker/network", "it is for DOCKER containers: use networks")
	}
	if len(d.Parameters) > 0 {
		norm.addError("/container/docker/parameters", "they are options of docker run, for DOCKER containers alone")
	}
	if len(d.PortMappings) > 0 {
		norm.addError("/container/docker/portMappings", "they are for DOCKER containers: use container.portMappings")
	}
}

// firstDuplicate returns the first number that occurs twice, or 0. It ignores zeros.
func firstDuplicate(ports []int) int {
	seen := map[int]bool{0: false}
	for _, p := range ports {
		if seen[p] {
			return p
		}
		seen[p] = p != 0
	}
	return 0
}

// checkAppRules checks an app in its new form.
func (norm *appNormalizer) checkAppRules() {
	norm.checkCommand()
	norm.checkRoles()
	norm.checkLimits()
	norm.checkLabels()
	norm.checkUpgrade()
	norm.checkNetworks()
	norm.checkPorts()
	if norm.app.Container != nil {
		norm.checkContainer(norm.app.Container)
	}
	norm.checkHealthChecks()
	norm.checkGeneralCheck()
	norm.checkReadinessChecks()
	for i, c := range norm.app.Constraints {
		if reason := checkConstraint(c); reason != "" {
			norm.addError(elementPath("/constraints", i), "%s", reason)
		}
	}
	for _, name := range sortedKeys(norm.app.Env) {
		if name == "" || strings.Contains(name, "=") {
			norm.addError("/env/"+name, "%q is not a variable's name: it is empty, or holds an equals sign", name)
		}
	}
	norm.checkSecrets()
	norm.checkJobRules()
}

func (norm *appNormalizer) checkCommand() {
	a := norm.app
	image := a.Container != nil && a.Container.Docker != nil
	switch {
	case a.Cmd != "" && len(a.Args) > 0:
		norm.addError("/", "cmd and args exclude each other: give one")
	case a.Cmd == "" && len(a.Args) == 0 && !image:
		norm.addError("/", "there is nothing to run: give cmd, args, or a container with an image")
	}
}

func (norm *appNormalizer) checkRoles() {
	a := norm.app
	role := a.effectiveRole(norm.roles)
	if !slices.Contains(norm.roles, role) {
		norm.addError("/role", "%q is not one of the roles allowed here: %s", role, strings.Join(norm.roles, ", "))
	}
	if a.AcceptedResourceRoles != nil && len(a.AcceptedResourceRoles) == 0 {
		norm.addError("/acceptedResourceRoles", "it is empty: leave it out")
	}
	for _, r := range a.AcceptedResourceRoles {
		if r != "*" && r != role {
			norm.addError("/acceptedResourceRoles", "%q is neither * nor the app's role %s", r, role)
		}
	}
}

func (norm *appNormalizer) checkLimits() {
	l := norm.app.ResourceLimits
	if l == nil {
		return
	}
	check := func(place string, l *ResourceLimit, request float64) {
		if l != nil && !l.Unlimited && l.Amount < request {
			norm.addError(place, "the limit of %s is below the request of %s", formatNumber(l.Amount), formatNumber(request))
		}
	}
	check("/resourceLimits/cpus", l.CPUs, norm.app.CPUs)
	check("/resourceLimits/mem", l.Mem, norm.app.MemMiB)
}

// GPULabel is the label that determines whether an app without GPUs may run on an agent with GPUs: GPUUnrestricted or
// GPURestricted.
const (
	GPULabel        = "GPU_SCHEDULING_BEHAVIOR"
	GPURestricted   = "restricted"
	GPUUnrestricted = "unrestricted"
)

func (norm *appNormalizer) checkLabels() {
	l := norm.app.Labels
	if v, ok := l[GPULabel]; ok && v != GPURestricted && v != GPUUnrestricted {
		norm.addError("/labels/"+GPULabel, "%q is neither %s nor %s", v, GPURestricted, GPUUnrestricted)
	}
	if v := l["DCOS_MIGRATION_API_VERSION"]; v != "" && (v != "v1" || l["DCOS_PACKAGE_FRAMEWORK_NAME"] == "" || l["DCOS_MIGRATION_API_PATH"] == "") {
		norm.addError("/", "the label DCOS_MIGRATION_API_VERSION is v1 and goes with DCOS_PACKAGE_FRAMEWORK_NAME and DCOS_MIGRATION_API_PATH")
	}
}

func (norm *appNormalizer) checkUpgrade() {
	a := norm.app
	if u := a.UnreachableStrategy; u != nil && u.InactiveAfterSeconds > u.ExpungeAfterSeconds {
		norm.addError("/unreachableStrategy/inactiveAfterSeconds", "%d is more than the expungeAfterSeconds of %d", u.InactiveAfterSeconds, u.ExpungeAfterSeconds)
	}
	if !a.IsSingleInstance() {
		return
	}
	if a.Instances > 1 {
		norm.addError("/", "the label MARATHON_SINGLE_INSTANCE_APP allows one instance, not %d", a.Instances)
	}
	u := a.UpgradeStrategy
	if u == nil {
		u = &UpgradeStrategy{MaximumOverCapacity: 1, MinimumHealthCapacity: 1}
	}
	for place, v := range map[string]float64{"maximumOverCapacity": u.MaximumOverCapacity, "minimumHealthCapacity": u.MinimumHealthCapacity} {
		if v != 0 {
			norm.addError("/upgradeStrategy/"+place, "it is %s, and 0 with the label MARATHON_SINGLE_INSTANCE_APP", formatNumber(v))
		}
	}
}
