package master

import (
	"testing"

	"mesos-gpu/job"
)

// The request of a warning goes to the first port: the host port on the host's network, else that of the container.
func TestWarningPort(t *testing.T) {
	for _, c := range []struct {
		warn    *job.Warning
		network job.NetworkMode
		want    int
	}{
		{nil, "", 0},
		{&job.Warning{Signal: "USR1"}, "", 0},
		{&job.Warning{HTTP: "/warn"}, "", 31000},
		{&job.Warning{HTTP: "/warn"}, "bridge", 8080},
	} {
		s := &job.Spec{Warn: c.warn, Container: job.Container{Network: c.network, Ports: []job.Port{{Container: 8080}}}}
		if got := warningPort(s, []int{31000}); got != c.want {
			t.Errorf("%+v in network %q: port %d, want %d", c.warn, c.network, got, c.want)
		}
	}
}
