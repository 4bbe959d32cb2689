package control

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
	"mesos-gpu/marathon/translate"
)

// Turn has do run where the apps are kept, and records at its end what it
// changed.
func (c *Control) Turn(ctx context.Context, do func(api.Service) error) error {
	return c.ask(ctx, func(k *keeper) error { return do(&Control{cfg: c.cfg, bus: c.bus, turn: k, keeper: k}) })
}

// Settings are those that the definition at that id is read with.
func (c *Control) Settings(ctx context.Context, id string) (s marathon.Settings, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		s = k.settings
		if top := topGroup(id); k.enforces(top) {
			s.Role = strings.TrimPrefix(top, "/")
		}
		return nil
	})
	return s, err
}

// topGroup is the one below the root that holds the id, or is it.
func topGroup(id string) string {
	top, _, _ := strings.Cut(strings.TrimPrefix(id, "/"), "/")
	return "/" + top
}

// enforces reports whether a group has its apps run in its own role. Groups
// that say something have a document.
func (k *keeper) enforces(group string) bool {
	if len(k.documents[documentPrefix+"group"+group]) == 0 {
		return false
	}
	g, ok := k.state.Group(group)
	return ok && g.EnforceRole != nil && *g.EnforceRole
}

// Apps are all, in the order of their ids.
func (c *Control) Apps(ctx context.Context) (list []api.App, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		for _, a := range k.state.Apps() {
			list = append(list, k.view(a))
		}
		return nil
	})
	return list, err
}

// App is one app. Returns *deploy.Unknown if there is none.
func (c *Control) App(ctx context.Context, id string) (app api.App, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		a, err := k.app(id)
		if err == nil {
			app = k.view(a)
		}
		return err
	})
	return app, err
}

func (k *keeper) app(id string) (*marathon.App, error) {
	a, ok := k.state.App(id)
	if !ok {
		return nil, &deploy.Unknown{Kind: "app", ID: id}
	}
	return a, nil
}

// Versions are those of an app that are kept, the newest first.
func (c *Control) Versions(ctx context.Context, id string) (list []string, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		_, err := k.app(id)
		list = k.state.Versions(id)
		return err
	})
	return list, err
}

// Version is an app as it was.
func (c *Control) Version(ctx context.Context, id, version string) (app *marathon.App, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		a, ok := k.state.Version(id, version)
		if !ok {
			return &deploy.Unknown{Kind: "version", ID: version}
		}
		app = a
		return nil
	})
	return app, err
}

// Update has the apps that edit returns deployed.
func (c *Control) Update(ctx context.Context, edit api.Edit, force bool) (d deploy.Deployment, made []*marathon.App, err error) {
	d, err = c.deploy(ctx, func(k *keeper, now time.Time) (deploy.Deployment, error) {
		apps, err := edit(func(id string) *marathon.App {
			a, _ := k.state.App(id)
			return a
		})
		if err != nil {
			return deploy.Deployment{}, err
		}
		if err := k.admit(ctx, apps...); err != nil {
			return deploy.Deployment{}, err
		}
		d, err := k.state.Put(now, apps, deploy.Options{Force: force})
		for _, a := range apps {
			if a, ok := k.state.App(a.ID); ok {
				made = append(made, a)
			}
		}
		return d, err
	})
	return d, made, err
}

// admit refuses what no job can be, and jobs that the cluster would refuse
// however long they wait.
func (k *keeper) admit(ctx context.Context, apps ...*marathon.App) error {
	var specs []job.Spec
	for _, a := range apps {
		if a.Instances == 0 {
			continue
		}
		spec, err := translate.Job(a, k.settings)
		if err != nil {
			return refused(err)
		}
		specs = append(specs, spec)
	}
	if err := k.cluster.Admit(ctx, specs...); err != nil {
		return refused(err)
	}
	return nil
}

func refused(err error) error {
	return &api.Problem{Status: http.StatusUnprocessableEntity, Message: err.Error()}
}

// deploy makes a deployment, and returns when it is recorded.
func (c *Control) deploy(ctx context.Context, do func(k *keeper, now time.Time) (deploy.Deployment, error)) (d deploy.Deployment, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		var err error
		d, err = do(k, c.cfg.Clock())
		return err
	})
	return d, err
}

// Remove removes an app and its instances.
func (c *Control) Remove(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.deploy(ctx, func(k *keeper, now time.Time) (deploy.Deployment, error) {
		return k.state.Remove(now, []string{id}, deploy.Options{Force: force})
	})
}

// Restart replaces an app's instances.
func (c *Control) Restart(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.deploy(ctx, func(k *keeper, now time.Time) (deploy.Deployment, error) {
		return k.state.Restart(now, []string{id}, deploy.Options{Force: force})
	})
}

// Kill ends instances, which are replaced.
func (c *Control) Kill(ctx context.Context, taskIDs []string) error {
	return c.ask(ctx, func(k *keeper) error {
		if err := k.cluster.Stop(ctx, taskIDs, false); err != nil {
			return unavailable("end %d instances: %v", len(taskIDs), err)
		}
		return nil
	})
}

// KillAndScale ends instances and makes their apps smaller. Those that have
// ended, or are about to, count no more.
func (c *Control) KillAndScale(ctx context.Context, taskIDs []string, force bool) (deploy.Deployment, error) {
	return c.deploy(ctx, func(k *keeper, now time.Time) (deploy.Deployment, error) {
		left := slices.Clone(taskIDs)
		for {
			d, err := k.state.Retire(now, left, deploy.Options{Force: force})
			var gone *deploy.Unknown
			if !errors.As(err, &gone) {
				return d, err
			}
			left = slices.DeleteFunc(left, func(id string) bool { return id == gone.ID })
		}
	})
}

// Deployments are those under way.
func (c *Control) Deployments(ctx context.Context) (list []deploy.Deployment, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		list = k.state.Deployments()
		return nil
	})
	return list, err
}

// Cancel takes a deployment back or, with force, leaves what it did.
func (c *Control) Cancel(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.deploy(ctx, func(k *keeper, now time.Time) (deploy.Deployment, error) {
		return k.state.Cancel(now, id, force)
	})
}

// Group is a group with all below it.
func (c *Control) Group(ctx context.Context, id string) (g *marathon.Group, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		found, ok := k.state.Group(id)
		if !ok {
			return &deploy.Unknown{Kind: "group", ID: id}
		}
		g = found
		return nil
	})
	return g, err
}

// PutGroup makes the group what g says. A dry run is made on a copy, whose
// deployments lock nothing.
func (c *Control) PutGroup(ctx context.Context, id string, g *marathon.Group, o api.GroupOptions) (deploy.Deployment, error) {
	return c.deploy(ctx, func(k *keeper, now time.Time) (deploy.Deployment, error) {
		state := k.state
		if o.DryRun {
			copied, err := deploy.New(maps.Clone(k.documents))
			if err != nil {
				return deploy.Deployment{}, err
			}
			state = copied
		}
		if err := k.admit(ctx, appsIn(g)...); err != nil {
			return deploy.Deployment{}, err
		}
		return state.PutGroup(now, id, g, deploy.Options{Force: o.Force || o.DryRun})
	})
}

func appsIn(g *marathon.Group) []*marathon.App {
	apps := append([]*marathon.App(nil), g.Apps...)
	for _, inner := range g.Groups {
		apps = append(apps, appsIn(inner)...)
	}
	return apps
}

// RemoveGroup removes a group with all below it.
func (c *Control) RemoveGroup(ctx context.Context, id string, force bool) (deploy.Deployment, error) {
	return c.deploy(ctx, func(k *keeper, now time.Time) (deploy.Deployment, error) {
		return k.state.RemoveGroup(now, id, deploy.Options{Force: force})
	})
}

// Queue lists the apps that have instances to place.
func (c *Control) Queue(ctx context.Context) (list []deploy.Queued, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		list = k.queue()
		return nil
	})
	return list, err
}

// queue also has the apps of which instances could not even be queued.
func (k *keeper) queue() []deploy.Queued {
	list := k.state.Queue()
	for app, what := range k.undone {
		missing := k.state.Missing(app)
		i := slices.IndexFunc(list, func(q deploy.Queued) bool { return q.App.ID == app })
		if a, ok := k.state.App(app); ok && i < 0 && missing > 0 {
			since, _ := time.Parse(time.RFC3339, a.VersionInfo.LastScalingAt) // its own writing
			list, i = append(list, deploy.Queued{App: a, Since: since}), len(list)
		}
		if i >= 0 {
			list[i].Count += missing
			list[i].Message = what.Error()
		}
	}
	slices.SortFunc(list, func(a, b deploy.Queued) int { return strings.Compare(a.App.ID, b.App.ID) })
	return list
}

// ResetDelay ends the pauses of an app's instances that wait.
func (c *Control) ResetDelay(ctx context.Context, id string) error {
	return c.ask(ctx, func(k *keeper) error {
		if _, err := k.app(id); err != nil {
			return err
		}
		var waiting []string
		for _, in := range k.state.Instances(id) {
			if in.State == job.Waiting {
				waiting = append(waiting, in.TaskID)
			}
		}
		if err := k.cluster.Wake(ctx, waiting); err != nil {
			return unavailable("end the pauses of %d instances: %v", len(waiting), err)
		}
		return nil
	})
}

// Leader is the base URL of the scheduler that leads.
func (c *Control) Leader(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper == nil {
		return "", nil
	}
	return c.keeper.url, nil
}

// Abdicate is refused: who leads is settled between the schedulers.
func (c *Control) Abdicate(context.Context) error {
	return &api.Problem{Status: http.StatusForbidden, Message: "stop this scheduler to have another lead: it goes on standing by when it is started again"}
}

// Info describes the scheduler.
func (c *Control) Info(ctx context.Context) (i api.Info, err error) {
	err = c.ask(ctx, func(k *keeper) error {
		leader, id, role, err := k.cluster.Self(ctx)
		i = api.Info{
			Name: "mesos-gpu", Version: c.cfg.Version, Elected: true, Leader: leader, FrameworkID: id,
			Marathon: map[string]any{"mesos_role": role, "gpu_scheduling_behavior": k.settings.GPUBehavior},
		}
		return err
	})
	return i, err
}

// view is an app with what runs of it.
func (k *keeper) view(a *marathon.App) api.App {
	v := api.App{App: a, Readiness: k.tries.results(a.ID)}
	if d, ok := k.state.Deployment(a.ID); ok {
		v.Deployments = []string{d.ID}
	}
	if f, ok := k.failures[a.ID]; ok {
		v.LastFailure = &f
	}
	if err := k.undone[a.ID]; err != nil {
		v.Message = err.Error()
	}
	for _, in := range k.state.Instances(a.ID) {
		if in.State.Placed() {
			v.Tasks = append(v.Tasks, k.taskOf(a, in))
		}
	}
	return v
}

func (k *keeper) taskOf(a *marathon.App, in deploy.Instance) api.Task {
	t := api.Task{
		ID: in.TaskID, AppID: a.ID, Host: in.Hostname, SlaveID: in.AgentID, State: deploy.MesosState(in.State), Ports: in.Ports,
		StagedAt: api.Time{Time: k.stagedAt(in)}, StartedAt: api.Time{Time: in.Started}, Version: k.startedFor(a.ID, in), Role: a.Role, IPAddresses: in.Addresses,
	}
	t.Region, t.Zone = in.Fields["@region"], in.Fields["@zone"]
	if in.Healthy != nil {
		t.HealthCheckResults = []api.Health{{Alive: *in.Healthy, InstanceID: in.TaskID}}
	}
	return t
}
