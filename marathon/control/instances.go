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

// jobOwner is the app of a job and the configuration that the job was created from.
type jobOwner struct{ app, version string }

// readChanges reads what has changed in the cluster. It returns the instances of the apps
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
	for _, name := range gone { // after the last states of their tasks
		k.removeJob(name)
	}
	for app := range seen {
		seen[app] = k.instancesOf(app)
	}
	return seen
}

// addJob stores the job if it belongs to an app, and reports whether it does.
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

// instancesOf returns the tasks of all jobs of an app, as last read.
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

// usesHostNetwork reports whether the job's tasks use the network of their agents.
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

// taskAddresses returns the addresses that the task reported. For a task in its agent's
// network that reported none, it returns the address of the agent.
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

// noteTaskState handles a task that has entered another state.
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

// maxLostInstances bounds the lost instances that are remembered.
const maxLostInstances = 10_000

// markLost remembers a lost instance: if it reports its end later, that is not another
// failure of its app. Beyond maxLostInstances it forgets any other one.
func (k *controlLoop) markLost(id string) {
	for other := range k.lost {
		if len(k.lost) < maxLostInstances {
			break
		}
		delete(k.lost, other)
	}
	k.lost[id] = true
}

// isFailure reports whether Marathon calls the state a failure. A task that finished or was
// killed has not failed.
func isFailure(s job.State) bool { return s == job.Failed || s == job.Lost || s == job.Refused }

// stagedAt returns when an instance was sent to its agent. After a failover only the time of
// its start, or of its last change, is known.
func (k *controlLoop) stagedAt(in deploy.AppInstance) time.Time {
	switch at := k.staged[in.TaskID]; {
	case !at.IsZero():
		return at
	case !in.Started.IsZero():
		return in.Started
	}
	return in.Changed
}

// startedFor returns the version of the app that an instance was started for: the version of
// its configuration that was desired at that time.
func (k *controlLoop) startedFor(app string, in deploy.AppInstance) string {
	return k.state.WantedAt(app, in.Version, k.stagedAt(in))
}
