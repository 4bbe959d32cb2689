package control

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
	"mesos-gpu/marathon/translate"
)

// readChanges handles what has changed in the cluster. It returns the apps whose jobs have
// changed.
func (l *controlLoop) readChanges() []string {
	specs, moves := l.cluster.TakeChanges()
	apps := map[string]bool{}
	for _, spec := range specs {
		if app, _, ours := l.appOf(spec); ours {
			apps[app] = true
		}
	}
	for i := range moves {
		spec, known := specs[moves[i].RunID().String()]
		if !known {
			continue
		}
		if app, version, ours := l.appOf(spec); ours {
			l.noteTaskState(app, l.instanceOf(&moves[i], app, version))
		}
	}
	for app := range apps {
		l.noteHealth(app)
		if l.state.HasReadinessChecks(app) || l.prober.hasProbes(app) {
			l.prober.watchApp(l.state, app, l.instancesOf(app))
		}
	}
	return slices.Collect(maps.Keys(apps))
}

// appOf returns the app and the version whose instances the tasks of a job are. ours is false
// for the job of a user, and for one in another role than the app's.
func (l *controlLoop) appOf(spec *job.Spec) (app, version string, ours bool) {
	app, version, ours = translate.AppOf(spec)
	if !ours {
		return "", "", false
	}
	config, known := l.state.AppAtConfig(app, version)
	return app, version, !known || cmp.Or(config.Role, l.settings.Role) == cmp.Or(spec.Role, l.settings.Role)
}

// findLiveJob returns the name of the live job that runs a version of an app.
func (l *controlLoop) findLiveJob(app, version string) (name string, ok bool) {
	for _, j := range l.cluster.ListGroupJobs(app) {
		if _, v, ours := l.appOf(j.Spec); ours && v == version && !j.IsTerminal() {
			return j.Spec.Name, true
		}
	}
	return "", false
}

// instancesOf returns the tasks of all jobs of an app.
func (l *controlLoop) instancesOf(app string) []deploy.AppInstance {
	var list []deploy.AppInstance
	for _, j := range l.cluster.ListGroupJobs(app) {
		if _, version, ours := l.appOf(j.Spec); ours {
			list = slices.Grow(list, len(j.Tasks))
			for i := range j.Tasks {
				list = append(list, l.instanceOf(&j.Tasks[i], app, version))
			}
		}
	}
	return list
}

func (l *controlLoop) instanceOf(t *job.Task, app, version string) deploy.AppInstance {
	config, known := l.state.AppAtConfig(app, version)
	return deploy.AppInstance{
		Task: *t, Version: version, Fields: l.cluster.AgentFields(t.AgentID), Ready: l.prober.isReady(app, t.ID),
		StartedFor: l.state.WantedAt(app, version, l.stagedAt(t)), Addresses: taskAddresses(t, known && config.UsesHostNetwork()),
	}
}

// taskAddresses returns the addresses that the task reported. For a task in its agent's
// network that reported none, it returns the address of the agent.
func taskAddresses(t *job.Task, onHost bool) []deploy.IPAddress {
	reported := t.Addresses
	if len(reported) == 0 && onHost {
		reported = []string{cmp.Or(hostOf(t.AgentURL), t.Hostname)}
	}
	all := make([]deploy.IPAddress, 0, len(reported))
	for _, text := range reported {
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

// hostOf returns the host of an agent's URL, such as http://10.0.0.7:5051/slave(1).
func hostOf(agentURL string) string {
	_, address, _ := strings.Cut(agentURL, "://")
	address, _, _ = strings.Cut(address, "/")
	host, _, _ := net.SplitHostPort(address)
	return host
}

// noteTaskState handles an instance that has entered another state.
func (l *controlLoop) noteTaskState(app string, in deploy.AppInstance) {
	if l.lost[in.ID] {
		delete(l.lost, in.ID)
		l.taskEvents = append(l.taskEvents, deploy.UnknownTermination(app, in))
		return
	}
	switch {
	case in.State == job.Launching:
		l.staged[in.ID] = in.Changed
	case in.State == job.Lost:
		l.markLost(in.ID)
	}
	l.taskEvents = append(l.taskEvents, deploy.StateChangeEvents(app, in)...)
	if !in.State.IsLive() {
		delete(l.staged, in.ID)
		delete(l.health, in.ID)
	}
	message, failed := in.Message, isFailure(in.State)
	if killedForHealth(&in.Task) {
		message, failed = "Task was killed since health check failed. Reason: "+in.Message, true
	}
	if failed {
		l.lastFailures[app] = api.TaskFailure{
			AppID: app, TaskID: in.ID, State: deploy.MesosState(in.State), Message: message,
			Host: in.Hostname, SlaveID: in.AgentID, Version: in.StartedFor, Timestamp: api.Time{Time: in.Changed},
		}
	}
}

// maxLostInstances bounds the lost instances that are remembered.
const maxLostInstances = 10_000

// markLost remembers a lost instance: if it reports its end later, that is not another
// failure of its app. Beyond maxLostInstances it forgets any other one.
func (l *controlLoop) markLost(id string) {
	for other := range l.lost {
		if len(l.lost) < maxLostInstances {
			break
		}
		delete(l.lost, other)
	}
	l.lost[id] = true
}

// isFailure reports whether Marathon calls the state a failure. A task that finished has not
// failed, nor has one that was killed, unless for its health.
func isFailure(s job.State) bool { return s == job.Failed || s == job.Lost || s == job.Refused }

// stagedAt returns when a task was sent to its agent. After a failover only the time of its
// start, or of its last change, is known.
func (l *controlLoop) stagedAt(t *job.Task) time.Time {
	switch at := l.staged[t.ID]; {
	case !at.IsZero():
		return at
	case !t.Started.IsZero():
		return t.Started
	}
	return t.Changed
}
