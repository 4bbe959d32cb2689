package marathon

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// Bounds of texts, as the kernel and job.Spec.Validate have them. An app's
// labels are in its environment too, by their names and by themselves.
const (
	maxWord      = 120 << 10
	maxWords     = 240 << 10
	maxLabels    = 98 // and two that say which app it is
	maxRules     = 48 // and those for the gpus and acceptedResourceRoles of an app
	maxMesosShm  = 4095
	labelsBefore = "MARATHON_APP_LABEL_"
)

// jobRules refuse what Marathon has and a job has not.
func (f *finish) jobRules() {
	a := f.app
	if len(a.ID) > maxID {
		f.bad("/id", "it has %d characters, more than %d", len(a.ID), maxID)
	}
	if a.MemMiB == 0 {
		f.bad("/mem", "0 MiB run nothing")
	}
	if len(a.Args) > 0 && a.Args[0] == "" {
		f.bad("/args(0)", "it is empty")
	}
	f.few("/constraints", len(a.Constraints), maxRules)
	f.labelNames()
	f.words()
	f.artifacts()
	f.jobNetwork()
	f.jobPorts()
	f.jobChecks()
	if a.Container != nil {
		f.jobContainer(a.Container)
	}
}

func (f *finish) few(place string, n, most int) {
	if n > most {
		f.bad(place, "%d are more than %d", n, most)
	}
}

func (a *App) mesos() bool { return a.Container == nil || a.Container.Type == MesosType }

func (a *App) image() string {
	if a.Container == nil || a.Container.Docker == nil {
		return ""
	}
	return a.Container.Docker.Image
}

func (a *App) role(roles []string) string {
	if a.Role == "" {
		return roles[0]
	}
	return a.Role
}

// JobLabel and VersionLabel are the labels of a job that say which app it is.
const (
	JobLabel     = "marathon.app"
	VersionLabel = "marathon.version"
)

func (f *finish) labelNames() {
	f.few("/labels", len(f.app.Labels), maxLabels)
	for _, name := range sorted(f.app.Labels) {
		if name == "" || name == JobLabel || name == VersionLabel || strings.HasPrefix(name, "mesos-gpu.") {
			f.bad("/labels/"+name, "%q is empty, or a label that the scheduler sets", name)
		}
	}
}

// words bounds what one ACCEPT carries for each task.
func (f *finish) words() {
	a, total := f.app, len(f.app.image())
	word := func(place string, parts ...string) {
		text := strings.Join(parts, "=")
		total += len(text)
		if strings.Contains(text, "\x00") {
			f.bad(place, "it holds a NUL byte")
		}
		if len(text) > maxWord {
			f.bad(place, "it has %d bytes, more than %d: put it into a file", len(text), maxWord)
		}
	}
	word("/cmd", a.Cmd)
	for i, arg := range a.Args {
		word(index("/args", i), arg)
	}
	for _, name := range sorted(a.Env) {
		word("/env/"+name, name, a.Env[name].Value)
	}
	for _, name := range sorted(a.Labels) {
		word("/labels/"+name, name, a.Labels[name])
		total += len(labelsBefore) + 2*len(name) + len(a.Labels[name])
	}
	for i, h := range a.HealthChecks {
		if h.Command != nil {
			word(index("/healthChecks", i)+"/command/value", h.Command.Value)
		}
	}
	if c := a.Check; c != nil && c.Exec != nil {
		word("/check/exec/command", append([]string{c.Exec.Command.Shell}, c.Exec.Command.Argv...)...)
	}
	if total > maxWords {
		f.bad("/", "command, env, labels and checks have %d bytes together, more than %d: put what is large into files", total, maxWords)
	}
}

// schemes are those of Mesos's fetcher, and what operators add most.
func schemes() []string {
	return []string{"http", "https", "ftp", "ftps", "file", "hdfs", "s3", "s3a", "s3n", "hftp"}
}

func (f *finish) artifacts() {
	f.few("/fetch", len(f.app.Fetch), maxList)
	for i, a := range f.app.Fetch {
		place := index("/fetch", i)
		u, err := url.Parse(a.URI)
		switch {
		case err != nil:
			f.bad(place+"/uri", "%q is not a URI", a.URI)
		case u.Scheme == "" && !path.IsAbs(a.URI), u.Scheme != "" && !slices.Contains(schemes(), u.Scheme):
			f.bad(place+"/uri", "%q is neither an absolute path of the agent nor a URI of %s", a.URI, strings.Join(schemes(), ", "))
		}
		if d := a.DestPath; path.IsAbs(d) || d == ".." || strings.HasPrefix(d, "../") || d != "" && path.Clean(d) != d {
			f.bad(place+"/destPath", "%q leaves the sandbox, or is not plain", d)
		}
	}
}

func (f *finish) jobNetwork() {
	a := f.app
	if !a.OnHost() && a.mesos() {
		f.bad("/networks", "not served: a MESOS container has its agent's network: use DOCKER for another")
	}
	for i, n := range a.Networks {
		if n.Mode == ContainerMode && slices.Contains([]string{"host", "bridge", "none"}, n.Name) {
			f.bad(index("/networks", i)+"/name", "%s is no network of the docker engine's users: choose another mode", n.Name)
		}
	}
}

func (f *finish) jobPorts() {
	a := f.app
	f.few("/portDefinitions", len(a.PortDefinitions), maxList)
	if a.Container == nil {
		return
	}
	const place = "/container/portMappings"
	f.few(place, len(a.Container.PortMappings), maxList)
	none, hosts := 0, map[int]bool{}
	for i, m := range a.Container.PortMappings {
		if m.HostPort != nil && *m.HostPort > 0 {
			if hosts[*m.HostPort] {
				f.bad(index(place, i)+"/hostPort", "%d stands twice: an agent offers a port once, for tcp and udp alike", *m.HostPort)
			}
			hosts[*m.HostPort] = true
		}
		if m.Protocol == "udp,tcp" {
			f.bad(index(place, i)+"/protocol", "not served: one host port is for udp or for tcp: use two ports")
		}
		if m.HostPort == nil && !hasMode(a.Networks, BridgeMode) {
			none++
		}
	}
	if none > 0 && none < len(a.Container.PortMappings) {
		f.bad(place, "not served: some ports have a hostPort and some have none: PORT0, PORT1, … would not be told apart: give each one, or none")
	}
}

// blank is what no address has in it.
func blank(r rune) bool { return r <= ' ' || r == 0x7f }

func (f *finish) jobChecks() {
	f.few("/healthChecks", len(f.app.HealthChecks), job.MaxHealthChecks)
	for i, h := range f.app.HealthChecks {
		if strings.ContainsFunc(h.Path, blank) {
			f.bad(index("/healthChecks", i)+"/path", "%q holds a blank", h.Path)
		}
	}
	c := f.app.Check
	if c == nil {
		return
	}
	if c.HTTP != nil && strings.ContainsFunc(c.HTTP.Path, blank) {
		f.bad("/check/http/path", "%q holds a blank", c.HTTP.Path)
	}
	if c.Exec != nil && len(c.Exec.Command.Argv) > 0 && c.Exec.Command.Argv[0] == "" {
		f.bad("/check/exec/command/argv(0)", "it is empty")
	}
}
