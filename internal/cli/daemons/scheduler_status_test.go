package daemons

import (
	"errors"
	"testing"

	"mesos-gpu/framework"
	"mesos-gpu/framework/master"
)

func TestDescribeStatus(t *testing.T) {
	refused := errors.New("connection refused")
	subscribed := master.ConnectionStatus{URL: "http://m1:5050"}
	for want, s := range map[string]framework.Status{
		"starting": {},
		"waiting for ZooKeeper: connection refused": {ZooKeeperError: refused},
		"standing by": {Leadership: framework.StandingBy},
		"standing by; waiting for ZooKeeper: connection refused": {Leadership: framework.StandingBy, ZooKeeperError: refused},
		"leading; waiting for a master":                          {Leadership: framework.Leading},
		"leading; waiting for a master: connection refused": {Leadership: framework.Leading,
			Master: master.ConnectionStatus{Err: refused}},
		"leading; subscribed to http://m1:5050": {Leadership: framework.Leading, Master: subscribed},
		"leading; waiting for ZooKeeper: connection refused; subscribed to http://m1:5050": {Leadership: framework.Leading,
			ZooKeeperError: refused, Master: subscribed},
		"no longer leading: connection refused": {Leadership: framework.LostLeadership, LeadershipError: refused},
	} {
		if got := describeStatus(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
