package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
	"mesos-gpu/marathon/translate"
)

// RunExclusive runs do in the control loop, without other changes in between, and records
// its changes at the end.
func (c *Controller) RunExclusive(ctx context.Context, do func(api.AppService) error) error {
	return c.runInLoop(ctx, func(k *controlLoop) error { return do(&Controller{cfg: c.cfg, bus: c.bus, exclusive: k, loop: k}) })
}

// ParseSettings returns the settings for a definition with that id.
func (c *Controller) ParseSettings(ctx context.Context, id string) (s marathon.ParseSettings, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		s = k.settings
		if top := topGroupID(id); k.state.EnforcesRole(top) {
			s.Role = strings.TrimPrefix(top, "/")
		}
		return nil
	})
	return s, err
}

// topGroupID returns the group below the root that contains the id.
func topGroupID(id string) string {
	top, _, _ := strings.Cut(strings.TrimPrefix(id, "/"), "/")
	return "/" + top
}

// ListApps returns all apps, sorted by id.
func (c *Controller) ListApps(ctx context.Context) (list []api.AppStatus, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		for _, a := range k.state.Apps() {
			list = append(list, k.describeApp(a))
		}
		return nil
	})
	return list, err
}

// GetApp returns one app, or *deploy.NotFoundError.
func (c *Controller) GetApp(ctx context.Context, id string) (app api.AppStatus, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		a, err := k.findApp(id)
		if err == nil {
			app = k.describeApp(a)
		}
		return err
	})
	return app, err
}

func (l *controlLoop) findApp(id string) (*marathon.App, error) {
	a, ok := l.state.App(id)
	if !ok {
		return nil, &deploy.NotFoundError{Kind: "app", ID: id}
	}
	return a, nil
}

// ListVersions returns the versions that are kept of an app, the newest first.
func (c *Controller) ListVersions(ctx context.Context, id string) (list []string, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		_, err := k.findApp(id)
		list = k.state.Versions(id)
		return err
	})
	return list, err
}

// GetVersion returns an app as it was at a version.
func (c *Controller) GetVersion(ctx context.Context, id, version string) (app *marathon.App, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		a, ok := k.state.Version(id, version)
		if !ok {
			return &deploy.NotFoundError{Kind: "version", ID: version}
		}
		app = a
		return nil
	})
	return app, err
}

// UpdateApps deploys the apps that edit returns.
func (c *Controller) UpdateApps(ctx context.Context, edit api.EditFunc, force bool) (d deploy.Deployment, made []*marathon.App, err error) {
	d, err = c.startDeployment(ctx, func(k *controlLoop, now time.Time) (deploy.Deployment, error) {
		apps, err := edit(func(id string) *marathon.App {
			a, _ := k.state.App(id)
			return a
		})
		if err != nil {
			return deploy.Deployment{}, err
		}
		if err := k.checkAdmission(ctx, apps...); err != nil {
			return deploy.Deployment{}, err
		}
		d, err := k.state.PutApps(now, apps, c.changeOptions(ctx, force))
		for _, a := range apps {
			if a, ok := k.state.App(a.ID); ok {
				made = append(made, a)
			}
		}
		return d, err
	})
	return d, made, err
}

// checkAdmission rejects apps that cannot be translated to jobs, or whose jobs the cluster
// would never accept.
func (l *controlLoop) checkAdmission(ctx context.Context, apps ...*marathon.App) error {
	var specs []job.Spec
	for _, a := range apps {
		if a.Instances == 0 {
			continue
		}
		spec, err := translate.JobSpec(a, l.settings)
		if err != nil {
			return unprocessableError(err)
		}
		specs = append(specs, spec)
	}
	rejected, err := l.cluster.CheckAdmission(ctx, specs...)
	switch {
	case err != nil:
		return unavailableError("%v", err)
	case rejected != nil:
		return unprocessableError(rejected)
	}
	return nil
}

// unprocessableError returns an error whose answer has the message, and its lines as details:
// some clients show only one of them.
func unprocessableError(err error) error {
	detail := marathon.ErrorDetail{Path: "/", Errors: strings.Split(err.Error(), "\n")}
	return &marathon.ValidationError{Message: err.Error(), Details: []marathon.ErrorDetail{detail}}
}

// startDeployment starts a deployment and returns when it is recorded.
func (c *Controller) startDeployment(ctx context.Context, do func(k *controlLoop, now time.Time) (deploy.Deployment, error)) (d deploy.Deployment, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		var err error
		d, err = do(k, c.cfg.Clock())
		return err
	})
	return d, err
}

// changeOptions returns the options of a change that the request of ctx makes.
func (c *Controller) changeOptions(ctx context.Context, force bool) deploy.ChangeOptions {
	return deploy.ChangeOptions{Force: force, By: c.userOf(ctx)}
}

// userOf returns the user of the request of ctx, "" if it is unknown.
func (c *Controller) userOf(ctx context.Context) string {
	if c.cfg.UserOf == nil {
		return ""
	}
	return c.cfg.UserOf(ctx)
}

// RemoveApp removes an app and its instances.
func (c *Controller) RemoveApp(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.startDeployment(ctx, func(k *controlLoop, now time.Time) (deploy.Deployment, error) {
		return k.state.RemoveApps(now, []string{id}, c.changeOptions(ctx, force))
	})
}

// RestartApp replaces an app's instances.
func (c *Controller) RestartApp(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.startDeployment(ctx, func(k *controlLoop, now time.Time) (deploy.Deployment, error) {
		return k.state.RestartApps(now, []string{id}, c.changeOptions(ctx, force))
	})
}

// KillTasks ends instances. They are replaced.
func (c *Controller) KillTasks(ctx context.Context, taskIDs []string) error {
	return c.runInLoop(ctx, func(k *controlLoop) error {
		if err := k.cluster.StopTasks(ctx, taskIDs, false, c.userOf(ctx)); err != nil {
			return unavailableError("end %d instances: %v", len(taskIDs), err)
		}
		return nil
	})
}

// KillAndScale ends instances and scales their apps down by as many. It ignores instances
// that have ended or are ending.
func (c *Controller) KillAndScale(ctx context.Context, taskIDs []string, force bool) (deploy.Deployment, error) {
	return c.startDeployment(ctx, func(k *controlLoop, now time.Time) (deploy.Deployment, error) {
		left := slices.Clone(taskIDs)
		for {
			d, err := k.state.RetireInstances(now, left, c.changeOptions(ctx, force))
			var gone *deploy.NotFoundError
			if !errors.As(err, &gone) {
				return d, err
			}
			left = slices.DeleteFunc(left, func(id string) bool { return id == gone.ID })
		}
	})
}

// ListDeployments returns the current deployments.
func (c *Controller) ListDeployments(ctx context.Context) (list []deploy.Deployment, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		list = k.state.Deployments()
		return nil
	})
	return list, err
}

// CancelDeployment rolls a deployment back or, with force, keeps what it has done.
func (c *Controller) CancelDeployment(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.startDeployment(ctx, func(k *controlLoop, now time.Time) (deploy.Deployment, error) {
		return k.state.CancelDeployment(now, id, c.changeOptions(ctx, force))
	})
}

// GetGroup returns a group with its apps and subgroups.
func (c *Controller) GetGroup(ctx context.Context, id string) (g *marathon.Group, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		found, ok := k.state.Group(id)
		if !ok {
			return &deploy.NotFoundError{Kind: "group", ID: id}
		}
		g = found
		return nil
	})
	return g, err
}

// PutGroup changes the group to g. A dry run changes a copy of the state, whose deployments
// lock nothing.
func (c *Controller) PutGroup(ctx context.Context, id string, g *marathon.Group, o api.GroupOptions) (deploy.Deployment, error) {
	return c.startDeployment(ctx, func(k *controlLoop, now time.Time) (deploy.Deployment, error) {
		state := k.state
		if o.DryRun {
			documents, err := k.cluster.LoadDocuments(ctx)
			if err != nil {
				return deploy.Deployment{}, err
			}
			if state, err = k.loadState(documents); err != nil {
				return deploy.Deployment{}, err
			}
		}
		if err := k.checkAdmission(ctx, allApps(g)...); err != nil {
			return deploy.Deployment{}, err
		}
		return state.PutGroup(now, id, g, c.changeOptions(ctx, o.Force || o.DryRun))
	})
}

func allApps(g *marathon.Group) []*marathon.App {
	apps := append([]*marathon.App(nil), g.Apps...)
	for _, inner := range g.Groups {
		apps = append(apps, allApps(inner)...)
	}
	return apps
}

// RemoveGroup removes a group with its apps and subgroups.
func (c *Controller) RemoveGroup(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.startDeployment(ctx, func(k *controlLoop, now time.Time) (deploy.Deployment, error) {
		return k.state.RemoveGroup(now, id, c.changeOptions(ctx, force))
	})
}

// ListQueue returns the apps with instances that wait to be placed.
func (c *Controller) ListQueue(ctx context.Context) (list []deploy.QueuedApp, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		list = k.queuedApps()
		return k.explainWaiting(ctx, list)
	})
	return list, err
}

// explainWaiting sets why the instances of apps wait, unless an action has failed.
func (l *controlLoop) explainWaiting(ctx context.Context, list []deploy.QueuedApp) error {
	jobs, names := map[string][]string{}, []string{}
	for i := range list {
		id := list[i].App.ID
		for _, j := range l.cluster.ListGroupJobs(id) {
			if _, _, ours := l.appOf(j.Spec); ours && list[i].Message == "" {
				jobs[id], names = append(jobs[id], j.Spec.Name), append(names, j.Spec.Name)
			}
		}
	}
	reasons, err := l.cluster.ExplainWaiting(ctx, names...)
	if err != nil {
		return unavailableError("find out why instances wait: %v", err)
	}
	for i := range list {
		var texts []string
		for _, name := range jobs[list[i].App.ID] {
			why := reasons[name]
			if why.Text != "" && !slices.Contains(texts, why.Text) {
				texts = append(texts, why.Text)
			}
			if len(why.Exclusions) > 0 { // those of the newest version, which is the last
				list[i].Exclusions = why.Exclusions
			}
		}
		if len(texts) > 0 {
			list[i].Message = strings.Join(texts, "; ")
		}
	}
	return nil
}

// queuedApps also contains the apps whose instances could not be queued.
func (l *controlLoop) queuedApps() []deploy.QueuedApp {
	list := l.state.QueuedApps()
	for app, what := range l.failedActions {
		missing := l.state.CountMissing(app)
		i := slices.IndexFunc(list, func(q deploy.QueuedApp) bool { return q.App.ID == app })
		if a, ok := l.state.App(app); ok && i < 0 && missing > 0 {
			since, _ := time.Parse(time.RFC3339, a.VersionInfo.LastScalingAt) // package deploy has formatted it
			list, i = append(list, deploy.QueuedApp{App: a, Since: since}), len(list)
		}
		if i >= 0 {
			list[i].Count += missing
			list[i].Message = what.Error()
		}
	}
	slices.SortFunc(list, func(a, b deploy.QueuedApp) int { return strings.Compare(a.App.ID, b.App.ID) })
	return list
}

// ResetDelay ends the backoff of an app's waiting instances.
func (c *Controller) ResetDelay(ctx context.Context, id string) error {
	return c.runInLoop(ctx, func(k *controlLoop) error {
		if _, err := k.findApp(id); err != nil {
			return err
		}
		var waiting []string
		for _, in := range k.instancesOf(id) {
			if in.State == job.Waiting {
				waiting = append(waiting, in.ID)
			}
		}
		if err := k.cluster.EndBackoff(ctx, waiting); err != nil {
			return unavailableError("end the pauses of %d instances: %v", len(waiting), err)
		}
		return nil
	})
}

// LeaderURL returns the base URL of the leader.
func (c *Controller) LeaderURL(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loop == nil {
		return "", nil
	}
	return c.loop.url, nil
}

// AbdicateLeadership makes this scheduler stop leading, once it has answered.
func (c *Controller) AbdicateLeadership(ctx context.Context) error {
	return c.runInLoop(ctx, func(k *controlLoop) error {
		k.cluster.AbdicateLeadership()
		return nil
	})
}

// describeApp returns an app with its instances and deployments.
func (l *controlLoop) describeApp(a *marathon.App) api.AppStatus {
	v := api.AppStatus{App: a}
	d, deploying := l.state.Deployment(a.ID)
	if deploying {
		v.Deployments = []string{d.ID}
	}
	v.Readiness = l.prober.listResults(a.ID, deploying)
	if f, ok := l.lastFailures[a.ID]; ok {
		v.LastFailure = &f
	}
	instances := l.instancesOf(a.ID)
	v.Tasks = make([]api.AppTask, 0, len(instances))
	for _, in := range instances {
		if in.State.IsPlaced() {
			v.Tasks = append(v.Tasks, l.describeTask(a, in))
		}
	}
	return v
}

func (l *controlLoop) describeTask(a *marathon.App, in deploy.AppInstance) api.AppTask {
	t := api.AppTask{
		ID: in.ID, AppID: a.ID, Host: in.Hostname, SlaveID: in.AgentID, State: deploy.MesosState(in.State), Ports: in.Ports,
		StagedAt: api.Time{Time: l.stagedAt(&in.Task)}, StartedAt: api.Time{Time: in.Started}, Version: in.StartedFor, Role: a.Role, IPAddresses: in.Addresses,
	}
	t.Region, t.Zone = in.Fields["@region"], in.Fields["@zone"]
	t.HealthCheckResults = l.healthResults(&in.Task)
	return t
}
