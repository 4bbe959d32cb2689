package marathon

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// Bounds of texts. They are below those of job.Spec.Validate, because an app's labels are
// also in its environment, twice.
const (
	maxTextBytes      = 120 << 10
	maxTotalTextBytes = 240 << 10
	maxLabels         = 98 // without AppLabel and VersionLabel
	maxConstraints    = 48 // without those that gpus and acceptedResourceRoles add
	maxMesosShm       = 4095
	labelPrefix       = "MARATHON_APP_LABEL_"
)

// checkJobRules rejects what Marathon supports and a job does not.
func (norm *appNormalizer) checkJobRules() {
	a := norm.app
	if len(a.ID) > maxID {
		norm.addError("/id", "it has %d characters, more than %d", len(a.ID), maxID)
	}
	if a.MemMiB == 0 {
		norm.addError("/mem", "0 MiB run nothing")
	}
	if len(a.Args) > 0 && a.Args[0] == "" {
		norm.addError("/args(0)", "it is empty")
	}
	norm.checkCount("/constraints", len(a.Constraints), maxConstraints)
	norm.checkLabelNames()
	norm.checkTextSizes()
	norm.checkArtifacts()
	norm.checkJobNetwork()
	norm.checkJobPorts()
	norm.checkJobHealthChecks()
	if a.Container != nil {
		norm.checkJobContainer(a.Container)
	}
}

func (norm *appNormalizer) checkCount(place string, n, most int) {
	if n > most {
		norm.addError(place, "%d are more than %d", n, most)
	}
}

func (a *App) containerImage() string {
	if a.Container == nil || a.Container.Docker == nil {
		return ""
	}
	return a.Container.Docker.Image
}

func (a *App) effectiveRole(roles []string) string {
	if a.Role == "" {
		return roles[0]
	}
	return a.Role
}

// AppLabel and VersionLabel are the labels of a job that identify its app.
const (
	AppLabel     = job.AppLabel
	VersionLabel = job.AppVersionLabel
)

func (norm *appNormalizer) checkLabelNames() {
	norm.checkCount("/labels", len(norm.app.Labels), maxLabels)
	for _, name := range sortedKeys(norm.app.Labels) {
		if name == "" || name == AppLabel || name == VersionLabel || strings.HasPrefix(name, "mesos-gpu.") {
			norm.addError("/labels/"+name, "%q is empty, or a label that the scheduler sets", name)
		}
	}
}

// checkTextSizes bounds the texts that an ACCEPT carries for each task.
func (norm *appNormalizer) checkTextSizes() {
	a, total := norm.app, len(norm.app.containerImage())
	word := func(place string, parts ...string) {
		text := strings.Join(parts, "=")
		total += len(text)
		if strings.Contains(text, "\x00") {
			norm.addError(place, "it holds a NUL byte")
		}
		if len(text) > maxTextBytes {
			norm.addError(place, "it has %d bytes, more than %d: put it into a file", len(text), maxTextBytes)
		}
	}
	word("/cmd", a.Cmd)
	for i, arg := range a.Args {
		word(elementPath("/args", i), arg)
	}
	for _, name := range sortedKeys(a.Env) {
		word("/env/"+name, name, a.Env[name].Value)
	}
	for _, name := range sortedKeys(a.Labels) {
		word("/labels/"+name, name, a.Labels[name])
		total += len(labelPrefix) + 2*len(name) + len(a.Labels[name])
	}
	for i, n := range a.Networks {
		for _, name := range sortedKeys(n.Labels) {
			word(elementPath("/networks", i)+"/labels/"+name, name, n.Labels[name])
		}
	}
	for i, h := range a.HealthChecks {
		if h.Command != nil {
			word(elementPath("/healthChecks", i)+"/command/value", h.Command.Value)
		}
	}
	if c := a.Check; c != nil && c.Exec != nil {
		word("/check/exec/command", append([]string{c.Exec.Command.Shell}, c.Exec.Command.Argv...)...)
	}
	if total > maxTotalTextBytes {
		norm.addError("/", "command, env, labels and checks have %d bytes together, more than %d: put what is large into files", total, maxTotalTextBytes)
	}
}

// fetchSchemes returns the schemes of Mesos's fetcher, and of plugins that operators often install.
func fetchSchemes() []string {
	return []string{"http", "https", "ftp", "ftps", "file", "hdfs", "s3", "s3a", "s3n", "hftp"}
}

func (norm *appNormalizer) checkArtifacts() {
	norm.checkCount("/fetch", len(norm.app.Fetch), maxListItems)
	for i, a := range norm.app.Fetch {
		place := elementPath("/fetch", i)
		u, err := url.Parse(a.URI)
		switch {
		case err != nil:
			norm.addError(place+"/uri", "%q is not a URI", a.URI)
		case u.Scheme == "" && !path.IsAbs(a.URI), u.Scheme != "" && !slices.Contains(fetchSchemes(), u.Scheme):
			norm.addError(place+"/uri", "%q is neither an absolute path of the agent nor a URI of %s", a.URI, strings.Join(fetchSchemes(), ", "))
		}
		if d := a.DestPath; path.IsAbs(d) || d == ".." || strings.HasPrefix(d, "../") || d != "" && path.Clean(d) != d {
			norm.addError(place+"/destPath", "%q leaves the sandbox, or is not plain", d)
		}
	}
}

func (norm *appNormalizer) checkJobNetwork() {
	a := norm.app
	mesos := a.Container == nil || a.Container.Type == MesosType
	if n := countNetworks(a.Networks, ContainerMode); mesos && n > 1 {
		norm.addError("/networks", "not served: an app joins one container network, not %d", n)
	}
	for i, n := range a.Networks {
		if n.Mode == ContainerMode && slices.Contains([]string{"host", "bridge", "none"}, n.Name) {
			norm.addError(elementPath("/networks", i)+"/name", "%s is no container network: choose another mode", n.Name)
		}
		if n.Name != "" && !resourceName.MatchString(n.Name) {
			norm.addError(elementPath("/networks", i)+"/name",
				"%q is not a network's name: 1 to %d letters, digits, dots, dashes and underscores", n.Name,
				maxNameLength)
		}
		norm.checkCount(elementPath("/networks", i)+"/labels", len(n.Labels), maxLabels)
		if _, ok := n.Labels[""]; ok {
			norm.addError(elementPath("/networks", i)+"/labels", "a label's name is empty")
		}
	}
}

func (norm *appNormalizer) checkJobPorts() {
	a := norm.app
	norm.checkCount("/portDefinitions", len(a.PortDefinitions), job.MaxPorts)
	if a.Container == nil {
		return
	}
	const place = "/container/portMappings"
	norm.checkCount(place, len(a.Container.PortMappings), job.MaxPorts)
	none, hosts := 0, map[int]bool{}
	for i, m := range a.Container.PortMappings {
		if m.HostPort != nil && *m.HostPort > 0 {
			if hosts[*m.HostPort] {
				norm.addError(elementPath(place, i)+"/hostPort", "%d is given twice: an agent offers a port once, for tcp and udp alike", *m.HostPort)
			}
			hosts[*m.HostPort] = true
		}
		if m.Protocol == "udp,tcp" {
			norm.addError(elementPath(place, i)+"/protocol", "not served: one host port is for udp or for tcp: use two ports")
		}
		if m.HostPort == nil && !hasNetworkMode(a.Networks, BridgeMode) {
			none++
		}
	}
	if none > 0 && none < len(a.Container.PortMappings) {
		norm.addError(place, "not served: some ports have a hostPort and some have none: PORT0, PORT1, … would be ambiguous: set all of them, or none")
	}
}

// isBlank reports whether a character may not be in an address.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

func (norm *appNormalizer) checkJobHealthChecks() {
	norm.checkCount("/healthChecks", len(norm.app.HealthChecks), job.MaxHealthChecks)
	for i, h := range norm.app.HealthChecks {
		if strings.ContainsFunc(h.Path, isBlank) {
			norm.addError(elementPath("/healthChecks", i)+"/path", "%q holds a blank", h.Path)
		}
	}
	c := norm.app.Check
	if c == nil {
		return
	}
	if c.HTTP != nil && strings.ContainsFunc(c.HTTP.Path, isBlank) {
		norm.addError("/check/http/path", "%q holds a blank", c.HTTP.Path)
	}
	if c.Exec != nil && len(c.Exec.Command.Argv) > 0 && c.Exec.Command.Argv[0] == "" {
		norm.addError("/check/exec/command/argv(0)", "it is empty")
	}
}
