package deploy

import (
	"slices"

	"mesos-gpu/marathon"
)

// portAllotment allots service ports to the apps of one change. A port that any app has is
// not allotted to another one.
type portAllotment struct {
	state *DesiredState
	draft []draftApp
	// taken has the ports of all apps and of the change. It is nil until a port is needed.
	taken map[int]bool
	// next is the lowest port that may be free.
	next int
}

// keepPorts gives ports of 0 the ports that the app had before, in their order: a client may
// send the same definition again. It returns the app itself if it has no port of 0.
func (p *portAllotment) keepPorts(app *marathon.App, old *appRecord) *marathon.App {
	if old == nil || len(old.versions) == 0 || !slices.Contains(app.ServicePorts(), 0) {
		return app
	}
	ports := app.ServicePorts()
	free := slices.DeleteFunc(old.currentApp().ServicePorts(), func(port int) bool {
		return !p.state.ServicePorts.Contains(port) || slices.Contains(ports, port)
	})
	return app.AllotServicePorts(func() int {
		if len(free) == 0 {
			return 0
		}
		port := free[0]
		free = free[1:]
		return port
	})
}

// fillPorts gives the remaining ports of 0 free ones. The error is a *marathon.ValidationError.
func (p *portAllotment) fillPorts(app *marathon.App) (*marathon.App, error) {
	if !slices.Contains(app.ServicePorts(), 0) {
		return app, nil
	}
	p.readTaken()
	missing := 0
	app = app.AllotServicePorts(func() int {
		for p.taken[p.next] {
			p.next++
		}
		if !p.state.ServicePorts.Contains(p.next) {
			missing++
			return 0
		}
		p.taken[p.next] = true
		return p.next
	})
	if missing > 0 {
		return nil, invalidAt("/",
			"%d ports of %s have no number, and the service ports %s are all in use: give them numbers, or widen --marathon-service-ports",
			missing, app.ID, p.state.ServicePorts)
	}
	return app, nil
}

func (p *portAllotment) readTaken() {
	if p.taken != nil {
		return
	}
	p.taken, p.next = map[int]bool{}, p.state.ServicePorts.First
	add := func(app *marathon.App) {
		for _, port := range app.ServicePorts() {
			p.taken[port] = true
		}
	}
	for _, a := range p.state.apps {
		if len(a.versions) > 0 {
			add(a.currentApp())
		}
	}
	for _, d := range p.draft {
		if d.app != nil {
			add(d.app)
		}
	}
}
