package daemons

import (
	"context"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/leader"
	"mesos-gpu/marathon"
	marathoncontrol "mesos-gpu/marathon/control"
)

// marathonExtension makes a scheduler manage Marathon apps while it leads.
type marathonExtension struct{ *marathoncontrol.Controller }

// Lead implements framework.Extension.
func (a marathonExtension) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return a.Run(ctx, c)
}

func newMarathonExtension(version string, s marathon.ParseSettings, log logrus.FieldLogger) framework.Extension {
	return marathonExtension{marathoncontrol.New(marathoncontrol.ControllerConfig{Settings: s, Version: version, Authorize: framework.CheckAccess, Log: log})}
}
