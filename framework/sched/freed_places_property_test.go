package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// agentParts draws disjoint parts of the resources of one agent, and places that overlap them.
type agentParts struct {
	t *rapid.T
	// names is set if the agent names its GPUs.
	names bool
	total fit.TaskResources
	left  fit.TaskResources
}

// draw returns a part of some resources.
func (p *agentParts) draw(of *fit.TaskResources) (part fit.TaskResources) {
	part.Amount = fit.Amount{
		CPUs:   float64(rapid.IntRange(0, int(of.Amount.CPUs)).Draw(p.t, "cpus")),
		MemMiB: float64(rapid.IntRange(0, int(of.Amount.MemMiB)).Draw(p.t, "mem")),
	}
	if part.GPUs = rapid.IntRange(0, of.GPUs).Draw(p.t, "gpus"); p.names && part.GPUs > 0 {
		part.DeviceIDs = rapid.Permutation(of.DeviceIDs).Draw(p.t, "ids")[:part.GPUs]
	}
	if mem := rapid.Int64Range(0, of.Shares[0].MemMiB).Draw(p.t, "mem of share"); mem > 0 {
		part.Shares = []gpu.DeviceShare{{UUID: "S", MemMiB: mem, Cores: rapid.IntRange(0, of.Shares[0].Cores).Draw(p.t, "cores")}}
	}
	if len(of.Ports) > 0 && rapid.Bool().Draw(p.t, "has port") {
		part.Ports = []int{rapid.SampledFrom(of.Ports).Draw(p.t, "port")}
	}
	return part
}

// take returns a part of what no other part has.
func (p *agentParts) take() fit.TaskResources {
	part := p.draw(&p.left)
	amount := p.left.Amount.Minus(part.Amount)
	p.left = subtractResources(&p.left, &part)
	p.left.Amount = amount
	return part
}

// offerOf returns an offer of resources to a role.
func offerOf(id, role string, r *fit.TaskResources) Offer {
	o := Offer{ID: id, AgentID: "a", Role: role, Free: r.Amount, GPUs: r.GPUs, DeviceIDs: r.DeviceIDs}
	for _, s := range r.Shares {
		o.Shared = append(o.Shared, SharedDevice{UUID: s.UUID, MemMiB: s.MemMiB, Cores: s.Cores})
	}
	for _, port := range r.Ports {
		o.Ports = append(o.Ports, PortRange{First: port, Last: port})
	}
	return o
}

// sumResources returns the sum of resources; a device or port that several have is in it several times.
func sumResources(list []fit.TaskResources) (sum fit.TaskResources) {
	share := gpu.DeviceShare{UUID: "S"}
	for _, r := range list {
		sum.Amount, sum.GPUs = sum.Amount.Plus(r.Amount), sum.GPUs+r.GPUs
		sum.DeviceIDs, sum.Ports = append(sum.DeviceIDs, r.DeviceIDs...), append(sum.Ports, r.Ports...)
		for _, s := range r.Shares {
			share.MemMiB, share.Cores = share.MemMiB+s.MemMiB, share.Cores+s.Cores
		}
	}
	sum.Shares = []gpu.DeviceShare{share}
	slices.Sort(sum.DeviceIDs)
	slices.Sort(sum.Ports)
	return sum
}

// TestFreedPlacesAreWhatIsNeitherUsedNorOffered: of the places that ended tasks have left on an agent whose totals are listed,
// exactly what no attempt holds and no offer has counts as about to be offered, and each resource once.
func TestFreedPlacesAreWhatIsNeitherUsedNorOffered(t *testing.T) {
	roles := []string{"one", "two", "three"}
	var settings SchedulerSettings
	settings.MaxLiveTasks = 1000
	for _, role := range roles {
		settings.Policy.Roles = append(settings.Policy.Roles, queue.Role{Name: role})
	}
	rapid.Check(t, func(t *rapid.T) {
		p := &agentParts{t: t, names: rapid.Bool().Draw(t, "GPUs have names")}
		p.total = fit.TaskResources{
			Amount: fit.Amount{CPUs: 20, MemMiB: 500}, GPUs: 6, Shares: []gpu.DeviceShare{{UUID: "S", MemMiB: 800, Cores: 100}},
			Ports: []int{31000, 31001, 31002},
		}
		if p.names {
			p.total.DeviceIDs = []string{"A", "B", "C", "D", "E", "F"}
		}
		p.left = p.total
		st := New(settings, RecoveredState{})
		st.now = time.Unix(1_700_000_000, 0)
		st.listedAgents = map[string]Agent{"a": {
			ID: "a", Total: p.total.Amount, GPUs: p.total.GPUs, Shared: []SharedDevice{{UUID: "S", MemMiB: 800, Cores: 100}},
		}}

		var held, visible []fit.TaskResources // visible to the pool of all roles
		visibleTo := map[string][]fit.TaskResources{}
		for i := range rapid.IntRange(0, 3).Draw(t, "attempts") {
			r := p.take()
			held = append(held, r)
			st.held.add(&holding{
				taskID: fmt.Sprint("t", i), agentID: "a", amount: r.Amount, gpus: r.GPUs, deviceIDs: r.DeviceIDs, shares: r.Shares, ports: r.Ports,
			})
		}
		haveLeft := rapid.Bool().Draw(t, "offers have left")
		for i, role := range rapid.SliceOfNDistinct(rapid.SampledFrom(roles), 0, 3, rapid.ID[string]).Draw(t, "offered to") {
			r := p.take()
			o := offerOf(fmt.Sprint("o", i), role, &r)
			if visibleTo[role] = []fit.TaskResources{r}; haveLeft {
				st.recordOffers(st.now, []*Offer{&o})
				visible = []fit.TaskResources{r} // only the newest one
				continue
			}
			st.offers.offers[o.ID] = heldOffer{&o, st.now}
			visible = append(visible, r)
		}
		var places []fit.TaskResources
		for i := range rapid.IntRange(1, 4).Draw(t, "places") {
			r := p.draw(&p.total)
			places = append(places, r)
			places[i].Amount = r.Amount.Plus(st.cfg.Policy.Overhead)
			task := queue.RunningTask{
				TaskID: fmt.Sprint("p", i), AgentID: "a", DeviceIDs: slices.Clone(r.DeviceIDs), Shares: r.Shares, Ports: r.Ports,
				Spec:   &job.Spec{Role: rapid.SampledFrom(roles).Draw(t, "role"), CPUs: r.Amount.CPUs, MemMiB: r.Amount.MemMiB},
				Ending: true, Ended: true, Ends: st.now.Add(-time.Duration(i) * time.Second),
			}
			for _, s := range r.Shares {
				task.DeviceIDs = append(task.DeviceIDs, s.UUID)
			}
			if !p.names {
				task.DeviceIDs = nil
			}
			task.Spec.Request.GPUs = r.GPUs + len(r.Shares)
			st.freed = append(st.freed, freedPlace{task, st.now.Add(time.Second)})
		}

		var unoffered []fit.TaskResources
		seenBy := map[string][]fit.TaskResources{}
		for _, r := range st.appendFreedPlaces(nil) {
			part := r.Resources(fit.Amount{})
			if seenBy[r.Spec.Role] = append(seenBy[r.Spec.Role], part); !r.OfferedElsewhere {
				unoffered = append(unoffered, part)
			}
		}
		got, ended, taken := sumResources(unoffered), sumResources(places), sumResources(slices.Concat(held, visible))
		want := fit.TaskResources{
			Amount: fit.Amount{
				CPUs:   min(ended.Amount.CPUs, p.total.Amount.CPUs-taken.Amount.CPUs),
				MemMiB: min(ended.Amount.MemMiB, p.total.Amount.MemMiB-taken.Amount.MemMiB),
			},
			GPUs: min(ended.GPUs, p.total.GPUs-taken.GPUs),
			Shares: []gpu.DeviceShare{{
				UUID:   "S",
				MemMiB: min(ended.Shares[0].MemMiB, p.total.Shares[0].MemMiB-taken.Shares[0].MemMiB),
				Cores:  min(ended.Shares[0].Cores, p.total.Shares[0].Cores-taken.Shares[0].Cores),
			}},
		}
		if p.names {
			want.DeviceIDs = slices.DeleteFunc(slices.Compact(ended.DeviceIDs), func(id string) bool { return slices.Contains(taken.DeviceIDs, id) })
			want.GPUs = len(want.DeviceIDs)
		}
		if got.Amount != want.Amount || got.GPUs != want.GPUs || got.Shares[0] != want.Shares[0] || !slices.Equal(got.DeviceIDs, want.DeviceIDs) {
			t.Fatalf("%+v of the places count as not offered, want %+v", got, want)
		}
		for _, port := range got.Ports {
			if slices.Contains(taken.Ports, port) {
				t.Fatalf("port %d counts as not offered, and is used or offered", port)
			}
		}
		if len(slices.Compact(slices.Clone(got.Ports))) != len(got.Ports) {
			t.Fatalf("ports count twice: %d", got.Ports)
		}
		if haveLeft {
			return // a role may have been offered more than what the newest offer left
		}
		for _, role := range roles { // no role sees more than there is
			all := sumResources(slices.Concat(held, visibleTo[role], seenBy[role]))
			if all.Amount.Minus(p.total.Amount) != (fit.Amount{}) || all.GPUs > p.total.GPUs || all.Shares[0].MemMiB > p.total.Shares[0].MemMiB {
				t.Fatalf("role %s sees %+v of %+v", role, all, p.total)
			}
		}
	})
}
