package main

import (
	"context"
	"fmt"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"mesos-gpu/framework"
	"mesos-gpu/marathon"
	marathoncontrol "mesos-gpu/marathon/control"
)

// marathonExtension has a scheduler keep Marathon's apps.
type marathonExtension struct{ *marathoncontrol.Controller }

// Lead implements framework.Extension.
func (a marathonExtension) Lead(ctx context.Context, c *framework.ExtensionHandle) error {
	return a.Run(ctx, c)
}

func newMarathonExtension(s marathon.ParseSettings, log logrus.FieldLogger) framework.Extension {
	return marathonExtension{marathoncontrol.New(marathoncontrol.ControllerConfig{Settings: s, Version: version, Authorize: framework.CheckAccess, Log: log})}
}

// addMarathonFlags say how app definitions are read.
func addMarathonFlags(f *pflag.FlagSet, s *marathon.ParseSettings) {
	f.StringVar(&s.DefaultNetwork, "default-network", "", "container network of Marathon apps that name none")
	f.StringVar(&s.BridgeNetwork, "bridge-network", marathon.MesosBridge, "what Marathon apps call the bridge in ipAddress")
	f.StringVar(&s.GPUBehavior, "gpu-scheduling-behavior", marathon.GPURestricted,
		fmt.Sprintf("of Marathon apps that do not say: %s keeps those without GPUs off agents that offer some, %s does not", marathon.GPURestricted, marathon.GPUUnrestricted))
}
