package sim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/internal/simplex"
)

// packingProblem is placement as a linear program: agents of a group are divided among patterns, sets of tasks that fit one
// agent together, so that the most GPUs are in use. Its columns are the patterns, generated as they are needed (P. C.
// Gilmore and R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock Problem", Operations Research 9, 1961). Its
// rows are how many tasks of each group and agents of each group exist, and the CPUs and the memory of each group of agents.
type packingProblem struct {
	tasks  []taskGroup
	agents []agentGroup
	// groupOf has the group of each task that takes GPUs.
	groupOf map[*RecordedTask]int
	// milliUnit divides the GPU thousandths of every task and of a GPU.
	milliUnit int
	// patterns are the columns so far. Those of earlier numbers of tasks remain valid.
	patterns []agentPattern
}

// taskGroup is tasks with equal demands that fit the same agents.
type taskGroup struct {
	milli, gpus         int
	cpuMilli, memoryMiB int64
	models              []string // none: any
}

// value returns how many GPUs a task has in use.
func (g *taskGroup) value() float64 { return float64(g.gpus*g.milli) / milliPerGPU }

// agentGroup is agents of equal size on which the same groups of tasks fit.
type agentGroup struct {
	count, gpus         int
	cpuMilli, memoryMiB int64
	fit                 []int // of tasks
}

// agentPattern is a set of tasks that fit an agent of a group together. A group of tasks is in it as often as tasks.
type agentPattern struct {
	agents int
	tasks  []int
}

// maxTaskGroups limits the groups of tasks, since each is a row of a dense matrix.
const maxTaskGroups = 512

// maxBits is how many bits CPUs and memory have: see maxMilli and maxMemMiB.
const maxBits = 41

// newPackingProblem groups the tasks that take GPUs, and the agents that have some. If there are too many groups, it rounds
// the CPUs and memory of tasks down, by as many bits as necessary; the bound remains true.
func (t *ClusterTrace) newPackingProblem(tasks []*RecordedTask) *packingProblem {
	p := &packingProblem{}
	for bits := 0; p.groupTasks(tasks, bits) > maxTaskGroups && bits < maxBits; bits++ {
	}
	p.groupAgents(t.Agents)
	return p
}

// groupTasks groups tasks without the last bits of their CPUs and memory, and returns the number of groups.
func (p *packingProblem) groupTasks(tasks []*RecordedTask, bits int) int {
	p.tasks, p.groupOf, p.milliUnit = nil, map[*RecordedTask]int{}, milliPerGPU
	type demand struct {
		shape     taskShape
		memoryMiB int64
	}
	groups := map[demand]int{}
	for _, task := range tasks {
		if task.totalMilli() == 0 {
			continue
		}
		key := demand{task.shapeOf(), task.MemMiB >> bits << bits}
		key.shape.cpus = key.shape.cpus >> bits << bits
		i, seen := groups[key]
		if !seen {
			i, groups[key] = len(p.tasks), len(p.tasks)
			p.tasks = append(p.tasks, taskGroup{milli: task.GPUMilli, gpus: task.GPUs, cpuMilli: key.shape.cpus, memoryMiB: key.memoryMiB, models: task.Models})
			p.milliUnit = gcd(p.milliUnit, task.GPUMilli)
		}
		p.groupOf[task] = i
	}
	return len(p.tasks)
}

// groupAgents groups agents by size and, of those, by the tasks that fit them.
func (p *packingProblem) groupAgents(agents []RecordedAgent) {
	same := map[RecordedAgent]int{}
	for i := range agents {
		if agents[i].GPUs > 0 {
			a := agents[i]
			a.Name = ""
			same[a]++
		}
	}
	order := slices.SortedFunc(maps.Keys(same), func(a, b RecordedAgent) int {
		return cmp.Or(cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPUMilli, b.CPUMilli), cmp.Compare(a.MemMiB, b.MemMiB), strings.Compare(a.Model, b.Model))
	})
	for _, a := range order {
		g := agentGroup{count: same[a], gpus: a.GPUs, cpuMilli: a.CPUMilli, memoryMiB: a.MemMiB}
		for i := range p.tasks {
			if p.tasks[i].fitsAgent(&a) {
				g.fit = append(g.fit, i)
			}
		}
		at := slices.IndexFunc(p.agents, func(o agentGroup) bool {
			return o.gpus == g.gpus && o.cpuMilli == g.cpuMilli && o.memoryMiB == g.memoryMiB && slices.Equal(o.fit, g.fit)
		})
		if at < 0 {
			p.agents = append(p.agents, g)
		} else {
			p.agents[at].count += g.count
		}
	}
}

// fitsAgent reports whether a task of the group fits an idle agent.
func (g *taskGroup) fitsAgent(a *RecordedAgent) bool {
	return g.gpus <= a.GPUs && g.cpuMilli <= a.CPUMilli && g.memoryMiB <= a.MemMiB && (len(g.models) == 0 || slices.Contains(g.models, a.Model))
}

// gcd returns the greatest common divisor.
func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// allocationPrices is a solution of the dual program, and so a bound: every task is worth at most its price, and all agents
// together add at most agents. Amounts are in GPUs.
type allocationPrices struct {
	tasks  []float64 // by group
	agents float64
}

// boundFor returns the bound for so many tasks of each group.
func (a *allocationPrices) boundFor(counts []int) float64 {
	sum := a.agents
	for i, n := range counts {
		sum += float64(n) * a.tasks[i]
	}
	return sum
}

// Parameters of the column generation. Any prices give a true bound, so that they decide only how tight it is.
const (
	// gapPercent is how far, in percent of all GPUs, the bound may be above the solution.
	gapPercent = 0.01
	maxRounds  = 300
	// smoothing is the part of the best prices so far in the prices for which patterns are sought. Those of a solution jump
	// (P. Wentges, "Weighted Dantzig-Wolfe Decomposition for Linear Mixed-integer Programming", 1997).
	smoothing = 0.6
)

// solvePrices returns prices that are nearly the best ones for so many tasks of each group.
func (p *packingProblem) solvePrices(counts []int) *allocationPrices {
	best := p.pricesOfValue()
	least, gap := best.boundFor(counts), p.countGPUs()*gapPercent/100
	s := p.newProgram(counts)
	weight := 0.0 // of center, the duals of the least bound
	var center []float64
	for range maxRounds {
		duals := s.Solve()
		if least-s.Objective() <= gap {
			break
		}
		at := mixPrices(center, duals, weight)
		prices, patterns := p.priceAgents(at, counts)
		if bound := prices.boundFor(counts); center == nil || bound < least {
			center = at
			if bound < least {
				best, least = prices, bound
			}
		}
		added := 0
		for i := range patterns {
			if c := p.columnOf(&patterns[i]); c.GainAt(duals) > simplex.MinGain {
				p.patterns, s.Columns = append(p.patterns, patterns[i]), append(s.Columns, c)
				added++
			}
		}
		switch {
		case added > 0:
			weight = smoothing
		case weight == 0:
			return best // the solution of the program
		default:
			weight = 0
		}
	}
	return best
}

// mixPrices returns the mean of two lists of prices, the first with a weight.
func mixPrices(a, b []float64, weight float64) []float64 {
	if weight == 0 {
		return b
	}
	mixed := make([]float64, len(b))
	for i := range b {
		mixed[i] = weight*a[i] + (1-weight)*b[i]
	}
	return mixed
}

// countGPUs returns the number of GPUs of all agents.
func (p *packingProblem) countGPUs() float64 {
	sum := 0
	for i := range p.agents {
		sum += p.agents[i].count * p.agents[i].gpus
	}
	return float64(sum)
}

// pricesOfValue returns the prices that bound the allocation by the demand.
func (p *packingProblem) pricesOfValue() *allocationPrices {
	a := &allocationPrices{}
	for i := range p.tasks {
		a.tasks = append(a.tasks, p.tasks[i].value())
	}
	return a
}

// The rows of the program: groups of tasks, then the agents, the CPUs and the memory of each group of agents. CPUs and
// memory are in agents.
func (p *packingProblem) agentRow(k int) int  { return len(p.tasks) + k }
func (p *packingProblem) cpuRow(k int) int    { return len(p.tasks) + len(p.agents) + k }
func (p *packingProblem) memoryRow(k int) int { return len(p.tasks) + 2*len(p.agents) + k }

// columnOf returns a pattern as a column.
func (p *packingProblem) columnOf(pattern *agentPattern) simplex.Column {
	g := &p.agents[pattern.agents]
	c := simplex.Column{Cells: []simplex.Cell{{Row: p.agentRow(pattern.agents), Take: 1}}}
	cpus, memory := int64(0), int64(0)
	for _, i := range pattern.tasks {
		c.Value += p.tasks[i].value()
		c.Cells = append(c.Cells, simplex.Cell{Row: i, Take: 1})
		cpus, memory = cpus+p.tasks[i].cpuMilli, memory+p.tasks[i].memoryMiB
	}
	c.Cells = append(c.Cells,
		simplex.Cell{Row: p.cpuRow(pattern.agents), Take: float64(cpus) / float64(max(g.cpuMilli, 1))},
		simplex.Cell{Row: p.memoryRow(pattern.agents), Take: float64(memory) / float64(max(g.memoryMiB, 1))})
	return c
}

// newProgram returns the program with the patterns so far.
func (p *packingProblem) newProgram(counts []int) *simplex.Program {
	limits := make([]float64, len(p.tasks)+3*len(p.agents))
	for i, n := range counts {
		limits[i] = float64(n)
	}
	for k := range p.agents {
		for _, row := range []int{p.agentRow(k), p.cpuRow(k), p.memoryRow(k)} {
			limits[row] = float64(p.agents[k].count)
		}
	}
	s := simplex.NewProgram(limits)
	for i := range p.patterns {
		s.Columns = append(s.Columns, p.columnOf(&p.patterns[i]))
	}
	return s
}

// priceAgents returns the bound that follows from the duals, and the best pattern of each group of agents. Groups without
// tasks are in no pattern.
func (p *packingProblem) priceAgents(duals []float64, counts []int) (*allocationPrices, []agentPattern) {
	a := &allocationPrices{tasks: make([]float64, len(p.tasks))}
	for i := range p.tasks {
		a.tasks[i] = max(duals[i], 0)
		if counts[i] == 0 {
			a.tasks[i] = p.tasks[i].value() // what remains of it is 0
		}
	}
	var patterns []agentPattern
	for k := range p.agents {
		g := &p.agents[k]
		cpuPrice, memoryPrice := max(duals[p.cpuRow(k)], 0), max(duals[p.memoryRow(k)], 0)
		s := patternSearch{problem: p, group: g}
		for _, i := range g.fit {
			t := &p.tasks[i]
			gain := t.value() - a.tasks[i] - cpuPrice*float64(t.cpuMilli)/float64(max(g.cpuMilli, 1)) - memoryPrice*float64(t.memoryMiB)/float64(max(g.memoryMiB, 1))
			s.addTask(i, gain)
		}
		most, tasks := s.bestPattern()
		a.agents += float64(g.count) * (most + cpuPrice + memoryPrice)
		if len(tasks) > 0 {
			patterns = append(patterns, agentPattern{k, tasks})
		}
	}
	return a, patterns
}
