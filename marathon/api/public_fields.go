package api

import (
	"context"
	"slices"
	"strings"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// The functions of this file return the part of an answer that every user who may see an app reads. They apply to users without
// ReadOutput: commands, environments, files and messages may contain secrets. A field that is not listed here is hidden, also a
// new one. Labels are public, and what load balancers read: ports and health checks.

func (svc *authorizedService) canReadOutput(ctx context.Context, a *marathon.App) bool {
	return svc.authorize(ctx, ReadOutput, a.Role) == nil
}

// readableApp returns the part of an app that the user may read.
func (svc *authorizedService) readableApp(ctx context.Context, a *marathon.App) *marathon.App {
	if svc.canReadOutput(ctx, a) {
		return a
	}
	return publicApp(a)
}

// readableStatus returns the part of an app with its tasks that the user may read.
func (svc *authorizedService) readableStatus(ctx context.Context, a AppStatus) AppStatus {
	if !svc.canReadOutput(ctx, a.App) {
		return publicStatus(a)
	}
	if f := a.LastFailure; f != nil {
		masked := *f
		masked.Message = svc.nameMask(ctx, a.App).MaskText(f.Message)
		a.LastFailure = &masked
	}
	return a
}

// nameMask returns what masks the names of jobs and roles that the user may not see in messages about an app, nil for a user who
// sees all.
func (svc *authorizedService) nameMask(ctx context.Context, a *marathon.App) *job.NameMask {
	sees := func(role string) bool { return svc.authorize(ctx, See, role) == nil }
	if sees(allRoles) {
		return nil
	}
	return &job.NameMask{
		RoleOf:    svc.roleOf,
		SeesRole:  sees,
		KnowsRole: func(role string) bool { return sees(role) || strings.HasPrefix(a.Role, role+"/") },
	}
}

func publicStatus(a AppStatus) AppStatus {
	public := AppStatus{App: publicApp(a.App), Tasks: slices.Clone(a.Tasks), Deployments: a.Deployments}
	for i := range public.Tasks {
		public.Tasks[i] = publicTask(&a.Tasks[i])
	}
	if f := a.LastFailure; f != nil {
		public.LastFailure = &TaskFailure{
			AppID: f.AppID, Host: f.Host, State: f.State, TaskID: f.TaskID, Timestamp: f.Timestamp, Version: f.Version, SlaveID: f.SlaveID,
		}
	}
	for _, r := range a.Readiness {
		public.Readiness = append(public.Readiness, ReadinessResult{Name: r.Name, TaskID: r.TaskID, Ready: r.Ready})
	}
	return public
}

func publicTask(t *AppTask) AppTask {
	public := AppTask{
		ID:           t.ID,
		AppID:        t.AppID,
		Host:         t.Host,
		SlaveID:      t.SlaveID,
		State:        t.State,
		Ports:        t.Ports,
		ServicePorts: t.ServicePorts,
		IPAddresses:  t.IPAddresses,
		StagedAt:     t.StagedAt,
		StartedAt:    t.StartedAt,
		Version:      t.Version,
		LocalVolumes: t.LocalVolumes,
		Region:       t.Region,
		Zone:         t.Zone,
		Role:         t.Role,
	}
	for _, h := range t.HealthCheckResults {
		public.HealthCheckResults = append(public.HealthCheckResults, HealthResult{
			Alive:               h.Alive,
			ConsecutiveFailures: h.ConsecutiveFailures,
			FirstSuccess:        h.FirstSuccess,
			LastSuccess:         h.LastSuccess,
			LastFailure:         h.LastFailure,
			InstanceID:          h.InstanceID,
		})
	}
	return public
}

func publicApp(a *marathon.App) *marathon.App {
	public := &marathon.App{
		ID:                         a.ID,
		User:                       a.User,
		Instances:                  a.Instances,
		CPUs:                       a.CPUs,
		MemMiB:                     a.MemMiB,
		DiskMiB:                    a.DiskMiB,
		GPUs:                       a.GPUs,
		ResourceLimits:             a.ResourceLimits,
		Executor:                   a.Executor,
		ExecutorResources:          a.ExecutorResources,
		Role:                       a.Role,
		AcceptedResourceRoles:      a.AcceptedResourceRoles,
		Constraints:                a.Constraints,
		Labels:                     a.Labels,
		Dependencies:               a.Dependencies,
		PortDefinitions:            a.PortDefinitions,
		RequirePorts:               a.RequirePorts,
		BackoffSeconds:             a.BackoffSeconds,
		BackoffFactor:              a.BackoffFactor,
		MaxLaunchDelaySeconds:      a.MaxLaunchDelaySeconds,
		TaskKillGracePeriodSeconds: a.TaskKillGracePeriodSeconds,
		KillSelection:              a.KillSelection,
		UnreachableStrategy:        a.UnreachableStrategy,
		UpgradeStrategy:            a.UpgradeStrategy,
		TTY:                        a.TTY,
		Version:                    a.Version,
		VersionInfo:                a.VersionInfo,
	}
	public.Networks = make([]marathon.Network, 0, len(a.Networks))
	for _, n := range a.Networks {
		public.Networks = append(public.Networks, marathon.Network{Name: n.Name, Mode: n.Mode})
	}
	if c := a.Container; c != nil {
		public.Container = &marathon.Container{Type: c.Type, PortMappings: c.PortMappings, Volumes: []marathon.Volume{}}
		if d := c.Docker; d != nil {
			public.Container.Docker = &marathon.DockerInfo{
				Image:          d.Image,
				ForcePullImage: d.ForcePullImage,
				Privileged:     d.Privileged,
				Parameters:     []marathon.Parameter{},
			}
		}
	}
	for _, h := range a.HealthChecks {
		path, _, _ := strings.Cut(h.Path, "?") // the query may have a token
		public.HealthChecks = append(public.HealthChecks, marathon.HealthCheck{
			Protocol:               h.Protocol,
			Path:                   path,
			Port:                   h.Port,
			PortIndex:              h.PortIndex,
			GracePeriodSeconds:     h.GracePeriodSeconds,
			IntervalSeconds:        h.IntervalSeconds,
			TimeoutSeconds:         h.TimeoutSeconds,
			DelaySeconds:           h.DelaySeconds,
			MaxConsecutiveFailures: h.MaxConsecutiveFailures,
			IgnoreHTTP1xx:          h.IgnoreHTTP1xx,
			IPProtocol:             h.IPProtocol,
		})
	}
	return public
}

// publicEvent returns the part of an event that every user who may see all apps reads, nil for an event that is not listed here.
func publicEvent(ev deploy.BusEvent) deploy.BusEvent {
	switch ev := ev.(type) {
	case APIPost:
		return APIPost{ClientIP: ev.ClientIP, URI: ev.URI, App: publicApp(ev.App)}
	case deploy.DeploymentInfo:
		return deploy.DeploymentInfo{Plan: publicPlan(ev.Plan), Step: ev.Step}
	case deploy.DeploymentStepSuccess:
		return deploy.DeploymentStepSuccess{Plan: publicPlan(ev.Plan), Step: ev.Step}
	case deploy.DeploymentSuccess:
		return deploy.DeploymentSuccess{ID: ev.ID, Plan: publicPlan(ev.Plan)}
	case deploy.DeploymentFailed:
		return deploy.DeploymentFailed{ID: ev.ID, Plan: publicPlan(ev.Plan), Reason: ev.Reason}
	case deploy.StatusUpdate:
		ev.Message = ""
		return ev
	case StreamAttached, StreamDetached, HealthStatusChanged, deploy.AppTerminated, deploy.GroupChangeSuccess, deploy.InstanceChanged,
		deploy.UnknownInstanceTerminated, deploy.InstanceHealthChanged:
		return ev
	}
	return nil
}

func publicPlan(p deploy.EventPlan) deploy.EventPlan {
	return deploy.EventPlan{Plan: p.Plan, Original: publicGroup(p.Original), Target: publicGroup(p.Target)}
}

func publicGroup(g *marathon.Group) *marathon.Group {
	if g == nil {
		return nil
	}
	public := &marathon.Group{ID: g.ID, Dependencies: g.Dependencies, EnforceRole: g.EnforceRole, Version: g.Version}
	for _, a := range g.Apps {
		public.Apps = append(public.Apps, publicApp(a))
	}
	for _, inner := range g.Groups {
		public.Groups = append(public.Groups, publicGroup(inner))
	}
	return public
}
