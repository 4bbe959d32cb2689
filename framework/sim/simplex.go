package sim

import "math"

// Tolerances of the simplex method: the least gain, the least pivot, and the steps for each row after which it stops.
const (
	minGain        = 1e-7
	minPivot       = 1e-9
	maxStepsPerRow = 50
)

// lpColumn is a variable: what one unit of it adds to the objective and takes of rows.
type lpColumn struct {
	cells []lpCell
	cost  float64
}

// lpCell is how much a column takes of a row. A row may occur in several cells.
type lpCell struct {
	row  int
	take float64
}

// gainAt returns what a unit of the column adds to the objective beyond the prices of what it takes.
func (c *lpColumn) gainAt(duals []float64) float64 {
	gain := c.cost
	for _, cell := range c.cells {
		gain -= cell.take * duals[cell.row]
	}
	return gain
}

// revisedSimplex is the revised simplex method for a maximum. It starts with all variables 0, which is feasible.
type revisedSimplex struct {
	// columns are the variables. The caller may append some.
	columns []lpColumn
	// inverse is the inverse of the matrix of the basic columns.
	inverse [][]float64
	// value has the value of the basic variable of each row, and cost what one unit of it adds to the objective.
	value, cost []float64
}

// newRevisedSimplex returns the start: the basis is one variable for what each row leaves over, of cost 0. The caller sets the
// values.
func newRevisedSimplex(rows int) *revisedSimplex {
	s := &revisedSimplex{value: make([]float64, rows), cost: make([]float64, rows)}
	for i := range rows {
		s.inverse = append(s.inverse, make([]float64, rows))
		s.inverse[i][i] = 1
	}
	return s
}

// objective returns the value of the objective.
func (s *revisedSimplex) objective() float64 {
	sum := 0.0
	for i, cost := range s.cost {
		sum += cost * s.value[i]
	}
	return sum
}

// solveColumns brings columns into the basis while one has a gain, and returns the prices of the rows.
func (s *revisedSimplex) solveColumns() []float64 {
	duals := s.dualValues()
	for range maxStepsPerRow * len(s.value) {
		enters, most := lpColumn{}, minGain
		for row, y := range duals {
			if -y > most {
				enters, most = lpColumn{cells: []lpCell{{row, 1}}}, -y
			}
		}
		for i := range s.columns {
			if gain := s.columns[i].gainAt(duals); gain > most {
				enters, most = s.columns[i], gain
			}
		}
		if most == minGain {
			break
		}
		row := s.enterColumn(enters)
		if row < 0 {
			break
		}
		for j, x := range s.inverse[row] {
			duals[j] += most * x
		}
	}
	return s.dualValues()
}

// dualValues returns the price of each row at the current basis.
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

// enterColumn brings a column into the basis. It returns the row whose basic variable it replaces, -1 if nothing limits the
// column.
func (s *revisedSimplex) enterColumn(c lpColumn) int {
	step := make([]float64, len(s.value))
	for i, row := range s.inverse {
		for _, cell := range c.cells {
			step[i] += cell.take * row[cell.row]
		}
	}
	out, least := -1, math.Inf(1)
	for i, d := range step {
		if d > minPivot && s.value[i]/d < least {
			out, least = i, s.value[i]/d
		}
	}
	if out < 0 {
		return -1
	}
	pivot, filled := s.inverse[out], make([]int, 0, len(step))
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
		s.value[i] -= d * least
		row := s.inverse[i]
		for _, j := range filled {
			row[j] -= d * pivot[j]
		}
	}
	s.value[out], s.cost[out] = least, c.cost
	return out
}
