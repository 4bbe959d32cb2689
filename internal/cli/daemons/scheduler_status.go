package daemons

import (
	"cmp"

	"mesos-gpu/framework"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/cli"
)

// describeStatus returns the scheduler's status as one line for systemctl status.
func describeStatus(s framework.Status) string {
	role, connection := "", ""
	switch s.Leadership {
	case framework.StandingBy:
		role = "standing by"
	case framework.Leading:
		role, connection = "leading", describeConnection(s.Master)
	case framework.LostLeadership:
		role = cli.DescribeError("no longer leading", s.LeadershipError)
	}
	zookeeper := ""
	if s.ZooKeeperError != nil {
		zookeeper = cli.DescribeError("waiting for ZooKeeper", s.ZooKeeperError)
	}
	return cmp.Or(cli.JoinClauses(role, zookeeper, connection), "starting")
}

func describeConnection(c master.ConnectionStatus) string {
	if c.URL != "" {
		return "subscribed to " + c.URL
	}
	return cli.DescribeError("waiting for a master", c.Err)
}
