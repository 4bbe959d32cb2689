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

// jobOwner is the app that a job runs, and the configuration that it was made
// from.
type jobOwner struct{ app, version string }

// readChanges takes in what has happened, and returns the instances of the apps
// whose jobs have changed.
func (k *controlLoop) readChanges() map[string][]deploy.AppInstance {
	names, moves := k.cluster.TakeChanges()
	seen := map[string][]deploy.AppInstance{}
	var gone []string
	for _, name := range names {
		if j, there := k.cluster.FindJob(name); !there || !k.addJob(j) {
			gone = append(gone, name)
		}
		if o, ours := k.owners[name]; ours {
			seen[o.app] = nil
		}
	}
	for i := range moves {
		k.noteTaskState(&moves[i])
	}
	for _, name := range gone { // of which the last was just heard
		k.removeJob(name)
	}
	for app := range seen {
		seen[app] = k.instancesOf(app)
	}
	return seen
}

// addJob notes a job of an app; another's is none of it.
func (k *controlLoop) addJob(j job.Job) bool {
	app, version, ours := translate.AppOf(&j.Spec)
	if !ours {
		return false
	}
	if k.jobs[app] == nil {
		k.jobs[app] = map[string]job.Job{}
	}
	k.owners[j.Spec.Name], k.jobs[app][j.Spec.Name] = jobOwner{app, version}, j
	return true
}

func (k *controlLoop) removeJob(name string) {
	app := k.owners[name].app
	delete(k.owners, name)
	if delete(k.jobs[app], name); len(k.jobs[app]) == 0 {
		delete(k.jobs, app)
	}
}

// instancesOf are the tasks of all jobs of an app as they were last looked at.
func (k *controlLoop) instancesOf(app string) []deploy.AppInstance {
	var list []deploy.AppInstance
	for _, name := range slices.Sorted(maps.Keys(k.jobs[app])) {
		tasks, o := k.jobs[app][name].Tasks, k.owners[name]
		onHost := k.usesHostNetwork(o)
		for i := range tasks {
			list = append(list, k.instanceOf(&tasks[i], o.version, onHost))
		}
	}
	k.prober.watchApp(k.state, app, list)
	return list
}

// usesHostNetwork reports whether the job's tasks are in their agents' network.
func (k *controlLoop) usesHostNetwork(o jobOwner) bool {
	config, ok := k.state.AppAtConfig(o.app, o.version)
	return ok && config.UsesHostNetwork()
}

func (k *controlLoop) instanceOf(t *job.Task, version string, onHost bool) deploy.AppInstance {
	in := deploy.AppInstance{
		TaskID: t.ID, Version: version, Job: t.Job, State: t.State,
		KillRequested: t.KillRequested, KillReason: t.KillReason, Healthy: t.Healthy,
		Started: t.Started, Changed: t.Changed, NotBefore: t.NotBefore,
		Hostname: t.Hostname, AgentID: t.AgentID, Fields: k.cluster.AgentFields(t.AgentID),
		Ports: t.Ports, Addresses: taskAddresses(t, onHost), Message: t.Message,
	}
	in.StartedFor = k.startedFor(k.owners[t.Job].app, in)
	return in
}

// taskAddresses are those that a task was told to run at. One in its agent's
// network that was told none is where the agent answers.
func taskAddresses(t *job.Task, onHost bool) []deploy.IPAddress {
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

// noteTaskState takes in that a task has come into another state.
func (k *controlLoop) noteTaskState(t *job.Task) {
	o, ours := k.owners[t.Job]
	if !ours {
		return
	}
	if t.State == job.Launching {
		k.staged[t.ID] = t.Changed
	}
	in := k.instanceOf(t, o.version, k.usesHostNetwork(o))
	if k.lost[t.ID] {
		delete(k.lost, t.ID)
		k.taskEvents = append(k.taskEvents, deploy.UnknownTermination(o.app, in))
		return
	}
	if t.State == job.Lost {
		k.markLost(t.ID)
	}
	version := k.startedFor(o.app, in)
	k.taskEvents = append(k.taskEvents, deploy.StateChangeEvents(o.app, version, in)...)
	if !t.State.IsLive() {
		delete(k.staged, t.ID)
	}
	if isFailure(t.State) {
		k.lastFailures[o.app] = api.TaskFailure{
			AppID: o.app, TaskID: t.ID, State: deploy.MesosState(t.State), Message: t.Message,
			Host: t.Hostname, SlaveID: t.AgentID, Version: version, Timestamp: api.Time{Time: t.Changed},
		}
	}
}

// maxLostInstances bounds the instances that may turn up again.
const maxLostInstances = 10_000

// markLost notes that an instance was lost; should it end after all, that is
// nothing new of its app. Beyond a bound some other is forgotten.
func (k *controlLoop) markLost(id string) {
	for other := range k.lost {
		if len(k.lost) < maxLostInstances {
			break
		}
		delete(k.lost, other)
	}
	k.lost[id] = true
}

// isFailure reports whether Marathon calls a state a failure. One that finished
// or was killed did as it was to, or as it was told.
func isFailure(s job.State) bool { return s == job.Failed || s == job.Lost || s == job.Refused }

// stagedAt is when an instance was given to its agent; the next leader knows
// only since when it runs, or is as it is.
func (k *controlLoop) stagedAt(in deploy.AppInstance) time.Time {
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
func (k *controlLoop) startedFor(app string, in deploy.AppInstance) string {
	return k.state.WantedAt(app, in.Version, k.stagedAt(in))
}
