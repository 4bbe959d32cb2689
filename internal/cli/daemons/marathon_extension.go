package daemons

import (
	"cmp"
	"context"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/access"
	"mesos-gpu/framework/leader"
	"mesos-gpu/marathon"
	marathonapi "mesos-gpu/marathon/api"
	marathoncontrol "mesos-gpu/marathon/control"
)

// marathonExtension makes a scheduler manage Marathon apps while it leads.
type marathonExtension struct{ *marathoncontrol.Controller }

// Lead implements framework.Extension.
func (a marathonExtension) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return a.Run(ctx, c)
}

// newMarathonExtension returns the extension of a scheduler with cfg.
func newMarathonExtension(version string, s marathon.ParseSettings, cfg *framework.SchedulerConfig, log logrus.FieldLogger) framework.Extension {
	return marathonExtension{marathoncontrol.New(marathoncontrol.ControllerConfig{
		Settings: s, Version: version, Authorize: authorizeApps, UserOf: framework.UserOf, Log: log,
		Flags: marathoncontrol.SchedulerFlags{
			FrameworkName: cmp.Or(cfg.Name, framework.DefaultName), User: cmp.Or(cfg.User, framework.DefaultUser),
			FailoverTimeout: cmp.Or(cfg.FailoverTimeout, framework.DefaultFailoverTimeout), Master: cfg.Master,
			JournalPath: cfg.JournalPath, SessionTimeout: cfg.SessionTimeout,
		},
	})}
}

// authorizeApps checks the access file's permission for a request to Marathon's API.
func authorizeApps(ctx context.Context, p marathonapi.Permission, role string) error {
	if p == marathonapi.ReadOutput {
		return framework.CheckOutputAccess(ctx, role)
	}
	needed := map[marathonapi.Permission]access.Permission{marathonapi.See: access.View, marathonapi.Change: access.Operate, marathonapi.Administer: access.Admin}
	return framework.CheckAccess(ctx, needed[p], role)
}
