package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// rule is one wish beside type and number that an agent satisfies or not,
// whatever is free on it.
type rule struct {
	want  string // "driver 535 or newer"
	fails func(i int) bool
	has   func(i int) string // what one agent has instead
	// best says what comes nearest on agents that fail.
	best func(agents []int) string
}

func failsAny(rules []rule, i int) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.fails(i) })
}

// worst names the wish that most of the agents fail.
func worst(rules []rule, agents []int) string {
	failing := func(r rule) []int { return where(agents, r.fails) }
	w := slices.MaxFunc(rules, func(x, y rule) int { return cmp.Compare(len(failing(x)), len(failing(y))) })
	bad := failing(w)
	return fmt.Sprintf("%d %s %s: %s", len(bad), areAgents(len(bad), "lacks", "lack"), w.want, w.best(bad))
}

// rules lists what the demand asks.
func (q *asked) rules() []rule {
	var list []rule
	r := &q.d.Request
	if q.cl.gpus > 0 {
		if r.MinMemMiB > 0 {
			list = append(list, q.memoryRule())
		}
		if r.MinDriver != "" {
			list = append(list, q.versionRule("driver", r.MinDriver, func(k *kind) version { return k.driver }))
		}
		if r.MinCUDA != "" {
			list = append(list, q.versionRule("CUDA", r.MinCUDA, func(k *kind) version { return k.cuda }))
		}
		if !r.Devices.Any() {
			list = append(list, q.deviceRule())
		}
		if q.cl.wish.topology != "" {
			list = append(list, q.topologyRule())
		}
	}
	for _, con := range q.d.Constraints {
		if !con.PerJob() {
			list = append(list, q.constraintRule(con))
		}
	}
	if q.world.closing { // else nobody fails it
		list = append(list, q.maintenanceRule())
	}
	return list
}

// some reports whether the agent has devices that satisfy part of the wish.
func (q *asked) some(i int, part gpu.Request) bool {
	part.GPUs, part.Types = q.d.Request.GPUs, q.d.Request.Types
	return q.suited(i, &class{gpus: q.cl.gpus, wish: q.world.wish(part)})
}

func (q *asked) memoryRule() rule {
	largest := func(i int) int64 {
		k := q.rooms[i].kind
		most := k.mem
		for _, s := range k.slots {
			if q.world.types(q.d.Request.Types, s.model) {
				most = max(most, s.mem)
			}
		}
		return most
	}
	text := func(mem int64) string {
		if mem == 0 {
			return "none of known memory"
		}
		return fmt.Sprintf("%d MiB", mem)
	}
	return rule{
		want:  fmt.Sprintf("devices of %d MiB or more", q.d.Request.MinMemMiB),
		fails: func(i int) bool { return !q.some(i, gpu.Request{MinMemMiB: q.d.Request.MinMemMiB}) },
		has:   func(i int) string { return text(largest(i)) },
		best: func(agents []int) string {
			most := int64(0)
			for _, i := range agents {
				most = max(most, largest(i))
			}
			return "the largest has " + text(most)
		},
	}
}

func (q *asked) versionRule(name, want string, of func(*kind) version) rule {
	text := func(v version) string {
		if !v.known() {
			return "none that is known"
		}
		return v.text
	}
	return rule{
		want:  fmt.Sprintf("%s %s or newer", name, want),
		fails: func(i int) bool { return !of(q.rooms[i].kind).least(want) },
		has:   func(i int) string { return text(of(q.rooms[i].kind)) },
		best: func(agents []int) string {
			var newest version
			for _, i := range agents {
				if v := of(q.rooms[i].kind); v.compare(newest) > 0 {
					newest = v
				}
			}
			if !newest.known() {
				return "none tells its " + name
			}
			return "the newest is " + newest.text
		},
	}
}

func (q *asked) deviceRule() rule {
	return rule{
		want:  "devices of " + named(q.d.Request.Devices),
		fails: func(i int) bool { return !q.some(i, gpu.Request{Devices: q.d.Request.Devices}) },
		has:   func(int) string { return "none of them" },
		best:  func([]int) string { return "they have none of them" },
	}
}

func (q *asked) topologyRule() rule {
	largest := func(i int) int {
		r := &q.rooms[i]
		if !r.named && r.gpus > 0 {
			return 1 // by count: nobody knows what hangs together
		}
		return r.kind.largest(q.cl.wish.topology, q.cl.wish.on(r.kind, q.world).mask)
	}
	group := map[gpu.Topology]string{gpu.NVLink: "joined by NVLink", gpu.SameNUMA: "of one NUMA node"}[q.cl.wish.topology]
	return rule{
		want:  fmt.Sprintf("%d devices %s", q.cl.gpus, group),
		fails: func(i int) bool { return largest(i) < int(q.cl.gpus) },
		has:   func(i int) string { return fmt.Sprint(largest(i)) },
		best: func(agents []int) string {
			most := 0
			for _, i := range agents {
				most = max(most, largest(i))
			}
			return fmt.Sprintf("the largest group has %d", most)
		},
	}
}

func (q *asked) constraintRule(con job.Constraint) rule {
	only := q.world.filter([]job.Constraint{con})
	value := func(i int) string {
		if v, ok := q.world.agents[i].Field(con.Field); ok {
			return v
		}
		return "no " + con.Field
	}
	return rule{
		want: con.String(), has: value,
		fails: func(i int) bool { return !only.has(i) },
		best: func(agents []int) string {
			var seen []string
			for _, i := range agents {
				if v := value(i); !slices.Contains(seen, v) {
					seen = append(seen, v)
				}
			}
			slices.Sort(seen)
			if n := len(seen); n > 3 {
				seen = append(seen[:3], fmt.Sprintf("%d more", n-3))
			}
			return "they have " + strings.Join(seen, ", ")
		},
	}
}

func (q *asked) maintenanceRule() rule {
	text := func(until int64) string {
		if until <= 0 {
			return "none: it has begun"
		}
		return time.Duration(until).String()
	}
	return rule{
		want:  fmt.Sprintf("%s before maintenance", time.Duration(q.cl.lasts)),
		fails: func(i int) bool { return q.rooms[i].until < q.cl.lasts },
		has:   func(i int) string { return text(q.rooms[i].until) },
		best: func(agents []int) string {
			most := int64(0)
			for _, i := range agents {
				most = max(most, q.rooms[i].until)
			}
			return "the longest is " + text(most)
		},
	}
}
