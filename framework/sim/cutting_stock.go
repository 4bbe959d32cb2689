package sim

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// cuttingStock is the cutting stock problem that placing is when nothing but CountGPUs
// counts: pieces are cut out of CountGPUs so that least is left over. It is solved
// as a linear program, by columns that a knapsack finds (P. C. Gilmore and
// R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock Problem",
// Operations Research 9, 1961). Its rows are the pieces, then the models.
type cuttingStock struct {
	pieces    []gpuPiece
	models    []modelGroup
	unit      int // of all sizes, in thousandths
	nextModel int // the model whose cuts are tried first
}

// gpuPiece is what one GPU gives to a task of some kind.
type gpuPiece struct {
	milli  int
	models []string // nil: any
	count  int      // how many there are
}

// modelGroup is the CountGPUs of models that the same pieces may be cut of.
type modelGroup struct {
	count int
	fit   []int
}

func (t *ClusterTrace) newCuttingStock(tasks []*RecordedTask) *cuttingStock {
	c := &cuttingStock{unit: milliPerGPU}
	type kind struct {
		milli  int
		models string
	}
	index := map[kind]int{}
	for _, task := range tasks {
		if task.totalMilli() == 0 {
			continue
		}
		key := kind{task.GPUMilli, strings.Join(task.Models, "|")}
		i, seen := index[key]
		if !seen {
			i, index[key] = len(c.pieces), len(c.pieces)
			c.pieces = append(c.pieces, gpuPiece{milli: task.GPUMilli, models: task.Models})
			c.unit = gcd(c.unit, task.GPUMilli)
		}
		c.pieces[i].count += task.GPUs
	}
	count := map[string]int{}
	for i := range t.Agents {
		count[t.Agents[i].Model] += t.Agents[i].GPUs
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		var fit []int
		for i, p := range c.pieces {
			if p.models == nil || slices.Contains(p.models, name) {
				fit = append(fit, i)
			}
		}
		at := slices.IndexFunc(c.models, func(m modelGroup) bool { return slices.Equal(m.fit, fit) })
		if at < 0 {
			at, c.models = len(c.models), append(c.models, modelGroup{fit: fit})
		}
		c.models[at].count += count[name]
	}
	return c
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// upperBound is a bound whatever the prices of the pieces are, none below 0: each
// piece is worth its price at most, and what a GPU can have beyond the prices
// of its pieces, its best cut has. The right prices make it the least.
func (c *cuttingStock) upperBound(prices []float64) float64 {
	sum := 0.0
	for i := range c.pieces {
		sum += float64(c.pieces[i].count) * prices[i]
	}
	for m := range c.models {
		most, _ := c.bestCut(m, prices)
		sum += float64(c.models[m].count) * most
	}
	return sum
}

// bestCut is the cut of a model's GPU that gets most beyond the prices, and how
// much that is.
func (c *cuttingStock) bestCut(m int, prices []float64) (most float64, pieces []int) {
	room := milliPerGPU / c.unit
	value, last := make([]float64, room+1), make([]int, room+1)
	for used := 1; used <= room; used++ {
		value[used], last[used] = value[used-1], -1
		for _, i := range c.models[m].fit {
			milli := c.pieces[i].milli
			if size := milli / c.unit; size <= used {
				if v := value[used-size] + float64(milli) - prices[i]; v > value[used] {
					value[used], last[used] = v, i
				}
			}
		}
	}
	for used := room; used > 0; {
		i := last[used]
		if i < 0 {
			used--
			continue
		}
		pieces = append(pieces, i)
		used -= c.pieces[i].milli / c.unit
	}
	return value[room], pieces
}

// Bounds of the simplex method: a gain below the first is none, a divisor
// below the second is 0, and after so many steps a row the prices are good
// enough. Any prices make a bound.
const (
	minGain        = 1e-6
	minPivot       = 1e-9
	maxStepsPerRow = 50
)

// solvePrices are those of the pieces at which the linear program is solved.
func (c *cuttingStock) solvePrices() []float64 {
	rows := len(c.pieces) + len(c.models)
	s := newRevisedSimplex(rows)
	for i := range c.pieces {
		s.value[i] = float64(c.pieces[i].count)
	}
	for m := range c.models {
		s.value[len(c.pieces)+m] = float64(c.models[m].count)
	}
	for range maxStepsPerRow * rows {
		duals := s.dualValues()
		column, gain := c.enteringColumn(duals)
		if gain == 0 || !s.enterColumn(column) {
			break
		}
	}
	prices := s.dualValues()[:len(c.pieces)]
	for i := range prices {
		prices[i] = max(prices[i], 0)
	}
	return prices
}

// enteringColumn is a column that gains: that something stays uncut, or the best cut
// of the first model that has one. No gain is that no model has.
func (c *cuttingStock) enteringColumn(duals []float64) (lpColumn, float64) {
	for row, y := range duals {
		if -y > minGain {
			return lpColumn{rows: []int{row}}, -y
		}
	}
	for range c.models {
		row := len(c.pieces) + c.nextModel
		most, pieces := c.bestCut(c.nextModel, duals[:len(c.pieces)])
		if gain := most - duals[row]; gain > minGain {
			cost := 0
			for _, i := range pieces {
				cost += c.pieces[i].milli
			}
			return lpColumn{append(pieces, row), float64(cost)}, gain
		}
		c.nextModel = (c.nextModel + 1) % len(c.models)
	}
	return lpColumn{}, 0
}

// lpColumn is a variable: what it is worth, and its rows, each as often as one
// of it takes of them.
type lpColumn struct {
	rows []int
	cost float64
}

// revisedSimplex is the revised simplex method. It begins with nothing cut, which is
// feasible.
type revisedSimplex struct {
	inverse [][]float64 // of the basis
	value   []float64   // of the basic variables
	cost    []float64   // theirs
}

func newRevisedSimplex(rows int) *revisedSimplex {
	s := &revisedSimplex{value: make([]float64, rows), cost: make([]float64, rows)}
	for i := range rows {
		s.inverse = append(s.inverse, make([]float64, rows))
		s.inverse[i][i] = 1
	}
	return s
}

func (s *revisedSimplex) dualValues() []float64 {
	y := make([]float64, len(s.cost))
	for i, cost := range s.cost {
		if cost != 0 {
			for j, x := range s.inverse[i] {
				y[j] += cost * x
			}
		}
	}
	return y
}

// enterColumn brings a column into the basis; false if nothing bounds it.
func (s *revisedSimplex) enterColumn(c lpColumn) bool {
	step := make([]float64, len(s.value))
	for i, row := range s.inverse {
		for _, r := range c.rows {
			step[i] += row[r]
		}
	}
	out, least := -1, math.Inf(1)
	for i, d := range step {
		if d > minPivot && s.value[i]/d < least {
			out, least = i, s.value[i]/d
		}
	}
	if out < 0 {
		return false
	}
	pivot := s.inverse[out]
	for j := range pivot {
		pivot[j] /= step[out]
	}
	for i, d := range step {
		if i == out || d == 0 {
			continue
		}
		s.value[i] -= d * least
		for j := range pivot {
			s.inverse[i][j] -= d * pivot[j]
		}
	}
	s.value[out], s.cost[out] = least, c.cost
	return true
}
