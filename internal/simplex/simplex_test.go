package simplex

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A solution is optimal if it and its prices satisfy all rows and columns and have the same value.
func TestSolutionIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(1, 6).Draw(t, "rows")
		limits := make([]float64, rows)
		for i := range limits {
			limits[i] = float64(rapid.IntRange(0, 5).Draw(t, "limit"))
		}
		p := NewProgram(limits)
		for range rapid.IntRange(0, 10).Draw(t, "columns") {
			c := Column{Value: float64(rapid.IntRange(-2, 9).Draw(t, "value")), Cells: []Cell{{rapid.IntRange(0, rows-1).Draw(t, "row"), 1}}}
			for range rapid.IntRange(0, 4).Draw(t, "cells") {
				c.Cells = append(c.Cells, Cell{rapid.IntRange(0, rows-1).Draw(t, "row"), float64(rapid.IntRange(0, 3).Draw(t, "take"))})
			}
			p.Columns = append(p.Columns, c)
		}
		prices, dual := p.Solve(), 0.0
		for i, y := range prices {
			dual += y * limits[i]
			if y < -MinGain || p.basic[i] < -1e-9 {
				t.Fatalf("row %d has the price %g and the value %g", i, y, p.basic[i])
			}
		}
		if math.Abs(p.Objective()-dual) > 1e-6 {
			t.Errorf("the solution has %g, its prices %g", p.Objective(), dual)
		}
		for i := range p.Columns {
			if gain := p.Columns[i].GainAt(prices); gain > 1e-6 {
				t.Errorf("column %d gains %g", i, gain)
			}
		}
	})
}
