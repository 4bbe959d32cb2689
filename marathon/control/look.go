package control

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
	"mesos-gpu/marathon/translate"
)

// owner is the app that a job runs, and the configuration that it was made
// from.
type owner struct{ app, version string }

// look takes in what has happened, and returns the instances of the apps
// whose jobs have changed.
func (k *keeper) look() map[string][]deploy.Instance {
	names, moves := k.cluster.Take()
	seen := map[string][]deploy.Instance{}
	var gone []string
	for _, name := range names {
		if j, there := k.cluster.Job(name); !there || !k.own(j) {
			gone = append(gone, name)
		}
		if o, ours := k.owners[name]; ours {
			seen[o.app] = nil
		}
	}
	for i := range moves {
		k.hear(&moves[i])
	}
	for _, name := range gone { // of which the last was just heard
		k.disown(name)
	}
	for app := range seen {
		seen[app] = k.instances(app)
	}
	return seen
}

// own notes a job of an app; another's is none of it.
func (k *keeper) own(j job.Job) bool {
	app, version, ours := translate.Of(&j.Spec)
	if !ours {
		return false
	}
	if k.jobs[app] == nil {
		k.jobs[app] = map[string]job.Job{}
	}
	k.owners[j.Spec.Name], k.jobs[app][j.Spec.Name] = owner{app, version}, j
	return true
}

func (k *keeper) disown(name string) {
	app := k.owners[name].app
	delete(k.owners, name)
	if delete(k.jobs[app], name); len(k.jobs[app]) == 0 {
		delete(k.jobs, app)
	}
}

// instances are the tasks of all jobs of an app as they were last looked at.
func (k *keeper) instances(app string) []deploy.Instance {
	var list []deploy.Instance
	for _, name := range slices.Sorted(maps.Keys(k.jobs[app])) {
		tasks, o := k.jobs[app][name].Tasks, k.owners[name]
		onHost := k.onHost(o)
		for i := range tasks {
			list = append(list, k.instance(&tasks[i], o.version, onHost))
		}
	}
	k.tries.watch(k.state, app, list)
	return list
}

// onHost reports whether the job's tasks are in their agents' network.
func (k *keeper) onHost(o owner) bool {
	config, ok := k.state.Config(o.app, o.version)
	return ok && config.OnHost()
}

func (k *keeper) instance(t *job.Task, version string, onHost bool) deploy.Instance {
	in := deploy.Instance{
		TaskID: t.ID, Version: version, Job: t.Job, State: t.State,
		KillWanted: t.KillWanted, KillReason: t.KillReason, Healthy: t.Healthy,
		Started: t.Started, Changed: t.Changed, NotBefore: t.NotBefore,
		Hostname: t.Hostname, AgentID: t.AgentID, Fields: k.cluster.Fields(t.AgentID),
		Ports: t.Ports, Addresses: addresses(t, onHost), Message: t.Message,
	}
	in.StartedFor = k.startedFor(k.owners[t.Job].app, in)
	return in
}

// addresses are those that a task was told to run at. One in its agent's
// network that was told none is where the agent answers.
func addresses(t *job.Task, onHost bool) []deploy.IPAddress {
	told := t.Addresses
	if len(told) == 0 && onHost {
		told = []string{t.Hostname}
		if u, err := url.Parse(t.AgentURL); err == nil && u.Hostname() != "" {
			told = []string{u.Hostname()}
		}
	}
	var all []deploy.IPAddress
	for _, text := range told {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		protocol := "IPv6"
		if ip = ip.Unmap(); ip.Is4() {
			protocol = "IPv4"
		}
		all = append(all, deploy.IPAddress{IPAddress: ip.String(), Protocol: protocol})
	}
	return all
}

// hear takes in that a task has come into another state.
func (k *keeper) hear(t *job.Task) {
	o, ours := k.owners[t.Job]
	if !ours {
		return
	}
	if t.State == job.Launching {
		k.staged[t.ID] = t.Changed
	}
	in := k.instance(t, o.version, k.onHost(o))
	if k.gone[t.ID] {
		delete(k.gone, t.ID)
		k.heard = append(k.heard, deploy.Strayed(o.app, in))
		return
	}
	if t.State == job.Lost {
		k.giveUp(t.ID)
	}
	version := k.startedFor(o.app, in)
	k.heard = append(k.heard, deploy.Moved(o.app, version, in)...)
	if !t.State.Live() {
		delete(k.staged, t.ID)
	}
	if failed(t.State) {
		k.failures[o.app] = api.TaskFailure{
			AppID: o.app, TaskID: t.ID, State: deploy.MesosState(t.State), Message: t.Message,
			Host: t.Hostname, SlaveID: t.AgentID, Version: version, Timestamp: api.Time{Time: t.Changed},
		}
	}
}

// keptGone bounds the instances that may turn up again.
const keptGone = 10_000

// giveUp notes that an instance was lost; should it end after all, that is
// nothing new of its app. Beyond a bound some other is forgotten.
func (k *keeper) giveUp(id string) {
	for other := range k.gone {
		if len(k.gone) < keptGone {
			break
		}
		delete(k.gone, other)
	}
	k.gone[id] = true
}

// failed reports whether Marathon calls a state a failure. One that finished
// or was killed did as it was to, or as it was told.
func failed(s job.State) bool { return s == job.Failed || s == job.Lost || s == job.Refused }

// stagedAt is when an instance was given to its agent; the next leader knows
// only since when it runs, or is as it is.
func (k *keeper) stagedAt(in deploy.Instance) time.Time {
	switch at := k.staged[in.TaskID]; {
	case !at.IsZero():
		return at
	case !in.Started.IsZero():
		return in.Started
	}
	return in.Changed
}

// startedFor is the version of its app that an instance was started for: that
// of its configuration that was wanted then.
func (k *keeper) startedFor(app string, in deploy.Instance) string {
	return k.state.WantedAt(app, in.Version, k.stagedAt(in))
}
