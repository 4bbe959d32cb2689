package daemon

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// containersOfAgent are what the API's calls about containers come to.
type containersOfAgent = socket.Containers

// bare answers where another looks after the containers: of those that hold
// parts of devices it tells, and changes none.
type bare struct{ *guests }

var errElsewhere = &ledger.Refusal{Why: "this daemon looks after no containers: their agent does"}

// Recover implements socket.Containers, and so do all below.
func (bare) Recover([]string) error { return errElsewhere }

func (bare) Prepare(context.Context, containers.Launch) (containers.Setup, error) {
	return containers.Setup{}, errElsewhere
}

func (bare) Isolate(string, int) error { return errElsewhere }

func (bare) Update(string, []ledger.Resource) ([]string, error) { return nil, errElsewhere }

func (bare) Cleanup(string) error { return errElsewhere }

func (bare) Status(string) (containers.Status, error) { return containers.Status{}, errElsewhere }

func (b bare) Devices(container string) ([]string, error) {
	for _, h := range b.Holders() {
		if h.Container == container {
			return h.Devices, nil
		}
	}
	return nil, &containers.Unknown{Container: container}
}

func (b bare) Holders() []gpu.Holder { return b.holders() }

func (bare) Stock() []string { return []string{} }

// uses are the forms in which the books' containers hold devices; none before
// the books are open.
func uses(all containersOfAgent) map[string]share.Use {
	if b, ok := all.(books); ok {
		return b.Uses()
	}
	return nil
}
