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
func (f *appNormalizer) checkJobRules() {
	a := f.app
	if len(a.ID) > maxID {
		f.addError("/id", "it has %d characters, more than %d", len(a.ID), maxID)
	}
	if a.MemMiB == 0 {
		f.addError("/mem", "0 MiB run nothing")
	}
	if len(a.Args) > 0 && a.Args[0] == "" {
		f.addError("/args(0)", "it is empty")
	}
	f.checkCount("/constraints", len(a.Constraints), maxConstraints)
	f.checkLabelNames()
	f.checkTextSizes()
	f.checkArtifacts()
	f.checkJobNetwork()
	f.checkJobPorts()
	f.checkJobHealthChecks()
	if a.Container != nil {
		f.checkJobContainer(a.Container)
	}
}

func (f *appNormalizer) checkCount(place string, n, most int) {
	if n > most {
		f.addError(place, "%d are more than %d", n, most)
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

func (f *appNormalizer) checkLabelNames() {
	f.checkCount("/labels", len(f.app.Labels), maxLabels)
	for _, name := range sortedKeys(f.app.Labels) {
		if name == "" || name == AppLabel || name == VersionLabel || strings.HasPrefix(name, "mesos-gpu.") {
			f.addError("/labels/"+name, "%q is empty, or a label that the scheduler sets", name)
		}
	}
}

// checkTextSizes bounds the texts that an ACCEPT carries for each task.
func (f *appNormalizer) checkTextSizes() {
	a, total := f.app, len(f.app.containerImage())
	word := func(place string, parts ...string) {
		text := strings.Join(parts, "=")
		total += len(text)
		if strings.Contains(text, "\x00") {
			f.addError(place, "it holds a NUL byte")
		}
		if len(text) > maxTextBytes {
			f.addError(place, "it has %d bytes, more than %d: put it into a file", len(text), maxTextBytes)
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
		f.addError("/", "command, env, labels and checks have %d bytes together, more than %d: put what is large into files", total, maxTotalTextBytes)
	}
}

// fetchSchemes are those of Mesos's fetcher, and plugins that operators often install.
func fetchSchemes() []string {
	return []string{"http", "https", "ftp", "ftps", "file", "hdfs", "s3", "s3a", "s3n", "hftp"}
}

func (f *appNormalizer) checkArtifacts() {
	f.checkCount("/fetch", len(f.app.Fetch), maxListItems)
	for i, a := range f.app.Fetch {
		place := elementPath("/fetch", i)
		u, err := url.Parse(a.URI)
		switch {
		case err != nil:
			f.addError(place+"/uri", "%q is not a URI", a.URI)
		case u.Scheme == "" && !path.IsAbs(a.URI), u.Scheme != "" && !slices.Contains(fetchSchemes(), u.Scheme):
			f.addError(place+"/uri", "%q is neither an absolute path of the agent nor a URI of %s", a.URI, strings.Join(fetchSchemes(), ", "))
		}
		if d := a.DestPath; path.IsAbs(d) || d == ".." || strings.HasPrefix(d, "../") || d != "" && path.Clean(d) != d {
			f.addError(place+"/destPath", "%q leaves the sandbox, or is not plain", d)
		}
	}
}

func (f *appNormalizer) checkJobNetwork() {
	a := f.app
	mesos := a.Container == nil || a.Container.Type == MesosType
	if n := countNetworks(a.Networks, ContainerMode); mesos && n > 1 {
		f.addError("/networks", "not served: an app joins one container network, not %d", n)
	}
	for i, n := range a.Networks {
		if n.Mode == ContainerMode && slices.Contains([]string{"host", "bridge", "none"}, n.Name) {
			f.addError(elementPath("/networks", i)+"/name", "%s is no container network: choose another mode", n.Name)
		}
		if n.Name != "" && !resourceName.MatchString(n.Name) {
			f.addError(elementPath("/networks", i)+"/name", "%q is not a network's name: 1 to %d letters, digits, dots, dashes and underscores", n.Name, maxNameLength)
		}
		f.checkCount(elementPath("/networks", i)+"/labels", len(n.Labels), maxLabels)
		if _, ok := n.Labels[""]; ok {
			f.addError(elementPath("/networks", i)+"/labels", "a label's name is empty")
		}
	}
}

func (f *appNormalizer) checkJobPorts() {
	a := f.app
	f.checkCount("/portDefinitions", len(a.PortDefinitions), job.MaxPorts)
	if a.Container == nil {
		return
	}
	const place = "/container/portMappings"
	f.checkCount(place, len(a.Container.PortMappings), job.MaxPorts)
	none, hosts := 0, map[int]bool{}
	for i, m := range a.Container.PortMappings {
		if m.HostPort != nil && *m.HostPort > 0 {
			if hosts[*m.HostPort] {
				f.addError(elementPath(place, i)+"/hostPort", "%d is given twice: an agent offers a port once, for tcp and udp alike", *m.HostPort)
			}
			hosts[*m.HostPort] = true
		}
		if m.Protocol == "udp,tcp" {
			f.addError(elementPath(place, i)+"/protocol", "not served: one host port is for udp or for tcp: use two ports")
		}
		if m.HostPort == nil && !hasNetworkMode(a.Networks, BridgeMode) {
			none++
		}
	}
	if none > 0 && none < len(a.Container.PortMappings) {
		f.addError(place, "not served: some ports have a hostPort and some have none: PORT0, PORT1, … would be ambiguous: set all of them, or none")
	}
}

// isBlank reports whether a character may not be in an address.
func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

func (f *appNormalizer) checkJobHealthChecks() {
	f.checkCount("/healthChecks", len(f.app.HealthChecks), job.MaxHealthChecks)
	for i, h := range f.app.HealthChecks {
		if strings.ContainsFunc(h.Path, isBlank) {
			f.addError(elementPath("/healthChecks", i)+"/path", "%q holds a blank", h.Path)
		}
	}
	c := f.app.Check
	if c == nil {
		return
	}
	if c.HTTP != nil && strings.ContainsFunc(c.HTTP.Path, isBlank) {
		f.addError("/check/http/path", "%q holds a blank", c.HTTP.Path)
	}
	if c.Exec != nil && len(c.Exec.Command.Argv) > 0 && c.Exec.Command.Argv[0] == "" {
		f.addError("/check/exec/command/argv(0)", "it is empty")
	}
}
