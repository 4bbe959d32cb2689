// Package simplex solves linear programs with the revised simplex method. The caller may add columns between solutions, so that
// it can generate them as they are needed (column generation). Simplex of gonum.org/v1/gonum/optimize/convex/lp returns no dual
// prices and cannot go on with more columns.
package simplex

import (
	"math"
	"slices"
)

// Tolerances of the method: the least pivot, and the steps for each row after which it stops.
const (
	minPivot       = 1e-9
	maxStepsPerRow = 50
)

// MinGain is the least gain for which a column enters a solution.
const MinGain = 1e-7

// Column is a variable, at least 0: what one unit of it adds to the objective and takes of rows.
type Column struct {
	Cells []Cell
	Value float64
}

// Cell is how much a column takes of a row. A row may occur in several cells.
type Cell struct {
	Row  int
	Take float64
}

// GainAt returns what a unit of the column adds to the objective beyond the prices of what it takes.
func (c *Column) GainAt(prices []float64) float64 {
	gain := c.Value
	for _, cell := range c.Cells {
		gain -= cell.Take * prices[cell.Row]
	}
	return gain
}

// Program is a linear program for a maximum. It starts with all variables 0, which is feasible.
type Program struct {
	// Columns are the variables. The caller may append some.
	Columns []Column
	// inverse is the inverse of the matrix of the basic columns.
	inverse [][]float64
	// basic has the value of the basic variable of each row, and value what one unit of it adds to the objective.
	basic, value []float64
}

// NewProgram returns a program without columns. Each row has a limit, at least 0, for what columns take of it.
func NewProgram(limits []float64) *Program {
	p := &Program{basic: slices.Clone(limits), value: make([]float64, len(limits))} // the basis contains the slack of each row
	for i := range limits {
		p.inverse = append(p.inverse, make([]float64, len(limits)))
		p.inverse[i][i] = 1
	}
	return p
}

// Objective returns the value of the objective.
func (p *Program) Objective() float64 {
	sum := 0.0
	for i, value := range p.value {
		sum += value * p.basic[i]
	}
	return sum
}

// Solve brings columns into the basis while one has a gain, and returns the prices of the rows: the solution of the dual program.
func (p *Program) Solve() (prices []float64) {
	prices = p.rowPrices()
	for range maxStepsPerRow * len(p.basic) {
		enters, most := Column{}, MinGain
		for row, y := range prices {
			if -y > most {
				enters, most = Column{Cells: []Cell{{row, 1}}}, -y
			}
		}
		for i := range p.Columns {
			if gain := p.Columns[i].GainAt(prices); gain > most {
				enters, most = p.Columns[i], gain
			}
		}
		if most == MinGain {
			break
		}
		row := p.enterColumn(enters)
		if row < 0 {
			break
		}
		for j, x := range p.inverse[row] {
			prices[j] += most * x
		}
	}
	return p.rowPrices()
}

// rowPrices returns the price of each row at the current basis.
func (p *Program) rowPrices() []float64 {
	y := make([]float64, len(p.value))
	for i, value := range p.value {
		if value != 0 {
			for j, x := range p.inverse[i] {
				y[j] += value * x
			}
		}
	}
	return y
}

// enterColumn brings a column into the basis. It returns the row whose basic variable it replaces, -1 if nothing limits the
// column.
func (p *Program) enterColumn(c Column) int {
	step := make([]float64, len(p.basic))
	for i, row := range p.inverse {
		for _, cell := range c.Cells {
			step[i] += cell.Take * row[cell.Row]
		}
	}
	out, least := -1, math.Inf(1)
	for i, d := range step {
		if d > minPivot && p.basic[i]/d < least {
			out, least = i, p.basic[i]/d
		}
	}
	if out < 0 {
		return -1
	}
	pivot, filled := p.inverse[out], make([]int, 0, len(step))
	for j, x := range pivot {
		if x != 0 {
			pivot[j] = x / step[out]
			filled = append(filled, j)
		}
	}
	for i, d := range step {
		if i == out || d == 0 {
			continue
		}
		p.basic[i] -= d * least
		row := p.inverse[i]
		for _, j := range filled {
			row[j] -= d * pivot[j]
		}
	}
	p.basic[out], p.value[out] = least, c.Value
	return out
}
