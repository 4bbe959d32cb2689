package framework

import (
	"cmp"
	"fmt"
	"math"
	"syscall"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/apiserver"
)

// Defaults of the limits in APIConfig.
const (
	DefaultMaxConnections = 2048
	DefaultMaxStreams     = 1024
	DefaultMaxLists       = 32
	DefaultMaxRequests    = 256
	DefaultClientPercent  = 25
)

// apiLimits are the limits of the API that fit the descriptors of the process.
type apiLimits struct {
	apiserver.RequestLimits
	connections, connectionsPerAddress int
}

// checkLimits returns an error for a limit that no API can have.
func (a *APIConfig) checkLimits() error {
	for _, limit := range []struct {
		name string
		n    int
	}{{"connections", a.MaxConnections}, {"streams", a.MaxStreams}, {"lists", a.MaxLists}, {"requests", a.MaxRequests}} {
		if limit.n < 0 {
			return fmt.Errorf("the API's limit of %s is %d: it must not be negative", limit.name, limit.n)
		}
	}
	if a.ClientPercent < 0 || a.ClientPercent > 100 {
		return fmt.Errorf("one client's part of the API's limits is %d %%: it must be from 1 to 100 %%", a.ClientPercent)
	}
	return nil
}

// fitLimits returns the limits with their defaults. It reduces those that could use up the
// descriptors of the process: half of the descriptors are for connections of clients, a quarter
// for the requests to masters and agents that clients cause. The last quarter is left to the
// scheduler itself, for the master, ZooKeeper and the journal.
func (a *APIConfig) fitLimits(descriptors int, log logrus.FieldLogger) (l apiLimits) {
	fit := func(name string, n, available int) int {
		if n <= available {
			return n
		}
		log.WithField("descriptors", descriptors).Warnf("the API serves at most %d %s instead of %d: raise the limit of open files (LimitNOFILE)", available, name, n)
		return available
	}
	l.connections = fit("connections", cmp.Or(a.MaxConnections, DefaultMaxConnections), max(descriptors/2, 1))
	l.Streams = fit("streams", cmp.Or(a.MaxStreams, DefaultMaxStreams), max(descriptors/8, 1))
	l.Requests = fit("requests", cmp.Or(a.MaxRequests, DefaultMaxRequests), max(descriptors/16, 1))
	l.Lists = fit("lists", cmp.Or(a.MaxLists, DefaultMaxLists), max(descriptors/16, 1))
	l.ClientPercent = cmp.Or(a.ClientPercent, DefaultClientPercent)
	l.connectionsPerAddress = max(1, l.connections*l.ClientPercent/100)
	return l
}

// descriptorLimit returns how many files and connections the process may have open.
func descriptorLimit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
