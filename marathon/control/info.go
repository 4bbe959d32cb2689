package control

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/marathon/api"
)

// GetInfo describes this scheduler.
func (c *Controller) GetInfo(ctx context.Context) (i api.SchedulerInfo, err error) {
	err = c.runInLoop(ctx, func(k *controlLoop) error {
		self, id, role, err := k.cluster.DescribeScheduler(ctx)
		if err != nil {
			return err
		}
		f := c.cfg.Flags
		i = api.SchedulerInfo{
			Name: "mesos-gpu", Version: api.ServedVersion, BuildRef: c.cfg.Version, Elected: true, FrameworkID: id,
			Marathon: api.MarathonConfig{
				Checkpoint: true, DefaultNetworkName: k.settings.DefaultNetwork, Executor: "//cmd", FailoverTimeout: int64(f.FailoverTimeout / time.Second),
				Features: []string{"external_volumes", "gpu_resources", "task_killing"}, FrameworkName: f.FrameworkName, Master: withoutUser(f.Master),
				MesosBridgeName: k.settings.BridgeNetwork, MesosRole: role, MesosUser: f.User, WebUIURL: self,
			},
		}
		if master := k.cluster.MasterURL(); master != "" {
			i.Marathon.MesosLeaderUIURL = strings.TrimSuffix(master, "/") + "/"
		}
		if strings.HasPrefix(f.JournalPath, "zk://") {
			i.Marathon.HighlyAvailable = true
			i.ZooKeeper = api.ZooKeeperConfig{URL: withoutUser(f.JournalPath), SessionTimeout: f.SessionTimeout.Milliseconds()}
		}
		if u, err := url.Parse(self); err == nil {
			i.Leader, i.Marathon.Hostname, i.HTTP = u.Host, u.Hostname(), portOf(u)
		}
		return nil
	})
	return i, err
}

// withoutUser removes the user and password from an address.
func withoutUser(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if !ok {
		return rest
	}
	return scheme + "://" + rest
}

// portOf returns the port of the API.
func portOf(u *url.URL) (c api.HTTPConfig) {
	port, err := strconv.Atoi(u.Port())
	secure := u.Scheme == "https"
	switch {
	case err != nil && secure:
		port = 443
	case err != nil:
		port = 80
	}
	if secure {
		c.HTTPSPort = port
	} else {
		c.HTTPPort = port
	}
	return c
}
