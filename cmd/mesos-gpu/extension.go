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

// apps has a scheduler keep Marathon's apps.
type apps struct{ *marathoncontrol.Control }

// Lead implements framework.Extension.
func (a apps) Lead(ctx context.Context, c *framework.Cluster) error { return a.Run(ctx, c) }

func newApps(s marathon.Settings, log logrus.FieldLogger) framework.Extension {
	return apps{marathoncontrol.New(marathoncontrol.Config{Settings: s, Version: version, May: framework.May, Log: log})}
}

// settingsFlags say how app definitions are read.
func settingsFlags(f *pflag.FlagSet, s *marathon.Settings) {
	f.StringVar(&s.DefaultNetwork, "default-network", "", "container network of Marathon apps that name none")
	f.StringVar(&s.BridgeNetwork, "bridge-network", marathon.MesosBridge, "what Marathon apps call the bridge in ipAddress")
	f.StringVar(&s.GPUBehavior, "gpu-scheduling-behavior", marathon.GPURestricted,
		fmt.Sprintf("of Marathon apps that do not say: %s keeps those without GPUs off agents that offer some, %s does not", marathon.GPURestricted, marathon.GPUUnrestricted))
}
