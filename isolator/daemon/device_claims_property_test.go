package daemon

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"pgregory.net/rapid"
)

// naiveClaim is what a container holds: whole devices, and shares of GPU-s.
type naiveClaim struct {
	whole      []string
	mem, cores int
}

func (c naiveClaim) resources() []mesos.Resource {
	var list []mesos.Resource
	if len(c.whole) > 0 {
		list = wholeGPUs(c.whole...)
	}
	if c.mem > 0 {
		list = append(list, shareOf("GPU-s", float64(c.mem), float64(c.cores))...)
	}
	return list
}

// naiveLedger is the model: who holds what, and which of them the agent reports.
type naiveLedger struct {
	held     map[string]naiveClaim
	reported map[string]naiveTask
	// left are the containers with a process in their cgroup.
	left map[string]bool
}

type naiveTask struct {
	claim   naiveClaim
	running bool
	ended   bool
}

// settle does what each query of the agent does.
func (m *naiveLedger) settle() {
	for id := range m.held {
		task, is := m.reported[id]
		if is && task.ended || !is && !m.left[id] {
			delete(m.held, id)
		}
	}
	for id, task := range m.reported {
		if task.running && !task.ended {
			m.held[id] = task.claim
		}
	}
}

// fits reports whether no other container is in the way of a claim.
func (m *naiveLedger) fits(id string, c naiveClaim) bool {
	mem, cores := c.mem, c.cores
	for other, o := range m.held {
		if other == id {
			continue
		}
		for _, d := range c.whole {
			for _, e := range o.whole {
				if d == e || d == "GPU-m" && (e == "MIG-1" || e == "MIG-2") || e == "GPU-m" && (d == "MIG-1" || d == "MIG-2") {
					return false
				}
			}
		}
		if o.mem > 0 {
			mem, cores = mem+o.mem, cores+o.cores
		}
	}
	was := m.held[id] // it keeps a share that it has, also on a full device
	return c.mem <= was.mem && c.cores <= was.cores || mem <= 100 && cores <= 100
}

var anyClaim = rapid.Custom(func(t *rapid.T) naiveClaim {
	c := naiveClaim{whole: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GPU-a", "GPU-b", "GPU-m", "MIG-1", "MIG-2"}), 0, 2, rapid.ID).Draw(t, "whole")}
	if len(c.whole) == 0 || rapid.Bool().Draw(t, "share") {
		c.mem, c.cores = rapid.IntRange(1, 80).Draw(t, "mem"), rapid.IntRange(0, 80).Draw(t, "cores")
	}
	return c
})

// For any launches, ends, restarts of the daemon and processes that outlive their containers: a
// claim succeeds if and only if the naive ledger has room for it, and both have the same holders.
func TestClaimsAgreeWithNaiveLedger(t *testing.T) {
	dirs := 0
	root := t.TempDir()
	agent := startFakeOperator(t)
	rapid.Check(t, func(rt *rapid.T) {
		dirs++
		agent.mu.Lock()
		agent.tasks = map[string]reportedTask{}
		agent.mu.Unlock()
		r := &claimsRig{t: t, agent: agent, dir: filepath.Join(root, fmt.Sprint("records-", dirs))}
		procRoot := filepath.Join(root, fmt.Sprint("proc-", dirs))
		r.restart()
		r.processes.procRoot = procRoot
		m := &naiveLedger{held: map[string]naiveClaim{}, reported: map[string]naiveTask{}, left: map[string]bool{}}
		containers := []string{"c1", "c2", "c3", "c4", "c5"}
		draw := func(rt *rapid.T) string { return rapid.SampledFrom(containers).Draw(rt, "container") }
		report := func(id string, task naiveTask) {
			m.reported[id] = task
			state := mesos.TASK_STARTING
			if task.running {
				state = mesos.TASK_RUNNING
			}
			r.agent.set(id, reportedTask{state: state, resources: task.claim.resources(), noTask: task.ended})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				r.refresh()
				m.settle()
				held := map[string]naiveClaim{}
				for _, h := range r.manager.Holders() {
					c := held[h.Container]
					for _, d := range h.Devices {
						if d != "GPU-s" {
							c.whole = append(c.whole, d)
						}
					}
					for _, s := range h.Shares {
						c.mem, c.cores = int(s.MemMiB), s.Cores
					}
					held[h.Container] = c
				}
				if len(held) != len(m.held) {
					rt.Fatalf("holders are %v, want %v", held, m.held)
				}
				for id, want := range m.held {
					got := held[id]
					if slices.Sort(want.whole); !slices.Equal(got.whole, want.whole) || got.mem != want.mem || got.cores != want.cores {
						rt.Fatalf("%s holds %v, want %v", id, got, want)
					}
				}
				for uuid := range r.holders {
					stray := func(id string) bool {
						_, reported := m.reported[id]
						return !reported && relatedTo(m.held[id], uuid)
					}
					if !slices.ContainsFunc(slices.Collect(maps.Keys(m.held)), stray) {
						rt.Fatalf("%s is withheld, and held are %v, reported %v", uuid, m.held, m.reported)
					}
				}
			},
			"claim": func(rt *rapid.T) {
				id := draw(rt)
				task, reported := m.reported[id]
				if _, stray := m.held[id]; !reported && stray {
					rt.Skip("its id is in use")
				}
				if !reported {
					task = naiveTask{claim: anyClaim.Draw(rt, "claim")}
					report(id, task)
				}
				m.settle()
				fits := task.ended || m.fits(id, task.claim)
				if err := r.claim(id); (err == nil) != fits {
					rt.Fatalf("%s claims %v: got %v, held are %v", id, task.claim, err, m.held)
				}
				if fits && !task.ended {
					m.held[id] = task.claim
				}
			},
			"run": func(rt *rapid.T) { // after a claim, or without one
				id := draw(rt)
				task, reported := m.reported[id]
				if !reported || task.ended {
					rt.Skip("not launched")
				}
				task.running = true
				report(id, task)
			},
			"end": func(rt *rapid.T) {
				id := draw(rt)
				if task, reported := m.reported[id]; reported {
					task.ended = true
					report(id, task)
				}
			},
			"forget": func(rt *rapid.T) {
				id := draw(rt)
				delete(m.reported, id)
				r.agent.remove(id)
			},
			"leave a process": func(rt *rapid.T) {
				id := draw(rt)
				process := filepath.Join(procRoot, fmt.Sprint(int(id[1])))
				if m.left[id] = !m.left[id]; !m.left[id] {
					r.must(os.RemoveAll(process))
					return
				}
				r.must(os.MkdirAll(process, 0o700))
				r.must(os.WriteFile(filepath.Join(process, "cgroup"), []byte("0::/mesos/"+id+"\n"), 0o600))
			},
			"restart": func(*rapid.T) {
				r.restart()
				r.processes.procRoot = procRoot
			},
		})
	})
}

// relatedTo reports whether a claim contains the device, its GPU or a MIG device of it.
func relatedTo(c naiveClaim, uuid string) bool {
	if uuid == "GPU-s" {
		return c.mem > 0
	}
	return slices.ContainsFunc(c.whole, func(d string) bool {
		return d == uuid || parentGPU(claimsHost, uuid) == d || parentGPU(claimsHost, d) == uuid
	})
}
