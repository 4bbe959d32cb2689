package marathon

import (
	"fmt"
	"slices"
	"strings"
)

// elementPath returns the path of a list's element, in Marathon's notation.
func elementPath(list string, i int) string { return fmt.Sprintf("%s(%d)", list, i) }

// checkOldForms checks the forms that migrateOldForms removes.
func (f *appNormalizer) checkOldForms() {
	a := f.app
	if a.Container != nil {
		f.checkOldContainer(a.Container)
	}
	if ip := a.IPAddress; ip != nil {
		if ip.Discovery != nil && a.Container != nil && a.Container.Type == DockerType {
			f.addError("/ipAddress", "discovery is not for DOCKER containers: use container.portMappings")
		}
		if len(a.Networks) > 0 {
			f.addError("/", "ipAddress and networks are equivalent: remove ipAddress")
		}
		if len(a.Ports) > 0 || len(a.PortDefinitions) > 0 {
			f.addError("/", "an app with ipAddress has no ports and no portDefinitions")
		}
	}
	if len(a.URIs) > 0 && len(a.Fetch) > 0 {
		f.addError("/uris", "uris and fetch are equivalent: remove uris")
	}
	if dup := firstDuplicate(a.Ports); dup != 0 {
		f.addError("/", "port %d occurs twice in ports", dup)
		a.Ports[slices.Index(a.Ports, dup)] = 0 // so that it is reported once
	}
	if a.Ports != nil && a.PortDefinitions != nil && !slices.EqualFunc(a.Ports, a.PortDefinitions, func(p int, d PortDefinition) bool { return p == d.Port }) {
		f.addError("/", "ports and portDefinitions contradict each other: remove ports")
	}
}

func (f *appNormalizer) checkOldContainer(c *Container) {
	d := c.Docker
	if d == nil {
		return
	}
	f.checkUniqueNames("/container/docker/portMappings", d.PortMappings)
	if d.Network != "" && len(f.app.Networks) > 0 {
		f.addError("/", "container.docker.network and networks are equivalent: remove container.docker.network")
	}
	if c.Type != MesosType {
		return
	}
	if d.Network != "" {
		f.addError("/container/docker/network", "it is for DOCKER containers: use networks")
	}
	if len(d.Parameters) > 0 {
		f.addError("/container/docker/parameters", "they are options of docker run, for DOCKER containers alone")
	}
	if len(d.PortMappings) > 0 {
		f.addError("/container/docker/portMappings", "they are for DOCKER containers: use container.portMappings")
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
func (f *appNormalizer) checkAppRules() {
	f.checkCommand()
	f.checkRoles()
	f.checkLimits()
	f.checkLabels()
	f.checkUpgrade()
	f.checkNetworks()
	f.checkPorts()
	if f.app.Container != nil {
		f.checkContainer(f.app.Container)
	}
	f.checkHealthChecks()
	f.checkGeneralCheck()
	f.checkReadinessChecks()
	for i, c := range f.app.Constraints {
		if reason := checkConstraint(c); reason != "" {
			f.addError(elementPath("/constraints", i), "%s", reason)
		}
	}
	for _, name := range sortedKeys(f.app.Env) {
		if name == "" || strings.Contains(name, "=") {
			f.addError("/env/"+name, "%q is not a variable's name: it is empty, or holds an equals sign", name)
		}
	}
	f.checkSecrets()
	f.checkJobRules()
}

func (f *appNormalizer) checkCommand() {
	a := f.app
	image := a.Container != nil && a.Container.Docker != nil
	switch {
	case a.Cmd != "" && len(a.Args) > 0:
		f.addError("/", "cmd and args exclude each other: give one")
	case a.Cmd == "" && len(a.Args) == 0 && !image:
		f.addError("/", "there is nothing to run: give cmd, args, or a container with an image")
	}
}

func (f *appNormalizer) checkRoles() {
	a := f.app
	role := a.effectiveRole(f.roles)
	if !slices.Contains(f.roles, role) {
		f.addError("/role", "%q is not one of the roles allowed here: %s", role, strings.Join(f.roles, ", "))
	}
	if a.AcceptedResourceRoles != nil && len(a.AcceptedResourceRoles) == 0 {
		f.addError("/acceptedResourceRoles", "it is empty: leave it out")
	}
	for _, r := range a.AcceptedResourceRoles {
		if r != "*" && r != role {
			f.addError("/acceptedResourceRoles", "%q is neither * nor the app's role %s", r, role)
		}
	}
}

func (f *appNormalizer) checkLimits() {
	l := f.app.ResourceLimits
	if l == nil {
		return
	}
	check := func(place string, l *ResourceLimit, request float64) {
		if l != nil && !l.Unlimited && l.Amount < request {
			f.addError(place, "the limit of %s is below the request of %s", formatNumber(l.Amount), formatNumber(request))
		}
	}
	check("/resourceLimits/cpus", l.CPUs, f.app.CPUs)
	check("/resourceLimits/mem", l.Mem, f.app.MemMiB)
}

// GPULabel is the label that determines whether an app without GPUs may run on an agent with GPUs: GPUUnrestricted or
// GPURestricted.
const (
	GPULabel        = "GPU_SCHEDULING_BEHAVIOR"
	GPURestricted   = "restricted"
	GPUUnrestricted = "unrestricted"
)

func (f *appNormalizer) checkLabels() {
	l := f.app.Labels
	if v, ok := l[GPULabel]; ok && v != GPURestricted && v != GPUUnrestricted {
		f.addError("/labels/"+GPULabel, "%q is neither %s nor %s", v, GPURestricted, GPUUnrestricted)
	}
	if v := l["DCOS_MIGRATION_API_VERSION"]; v != "" && (v != "v1" || l["DCOS_PACKAGE_FRAMEWORK_NAME"] == "" || l["DCOS_MIGRATION_API_PATH"] == "") {
		f.addError("/", "the label DCOS_MIGRATION_API_VERSION is v1 and goes with DCOS_PACKAGE_FRAMEWORK_NAME and DCOS_MIGRATION_API_PATH")
	}
}

func (f *appNormalizer) checkUpgrade() {
	a := f.app
	if u := a.UnreachableStrategy; u != nil && u.InactiveAfterSeconds > u.ExpungeAfterSeconds {
		f.addError("/unreachableStrategy/inactiveAfterSeconds", "%d is more than the expungeAfterSeconds of %d", u.InactiveAfterSeconds, u.ExpungeAfterSeconds)
	}
	if !a.IsSingleInstance() {
		return
	}
	if a.Instances > 1 {
		f.addError("/", "the label MARATHON_SINGLE_INSTANCE_APP allows one instance, not %d", a.Instances)
	}
	u := a.UpgradeStrategy
	if u == nil {
		u = &UpgradeStrategy{MaximumOverCapacity: 1, MinimumHealthCapacity: 1}
	}
	for place, v := range map[string]float64{"maximumOverCapacity": u.MaximumOverCapacity, "minimumHealthCapacity": u.MinimumHealthCapacity} {
		if v != 0 {
			f.addError("/upgradeStrategy/"+place, "it is %s, and 0 with the label MARATHON_SINGLE_INSTANCE_APP", formatNumber(v))
		}
	}
}
