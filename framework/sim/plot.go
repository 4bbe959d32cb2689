package sim

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"mesos-gpu/framework/sim/chart"
)

// firstPlottedPercent is the first arrival on the chart. Policies hardly differ before it.
const firstPlottedPercent = 60

// PlotAllocation draws the allocation of each result by arrival as SVG. On the dotted line all arrived tasks have a place.
func PlotAllocation(w io.Writer, title string, results []PolicyResult) error {
	c := chart.LineChart{
		Title: title,
		X:     chart.Axis{Label: "GPUs requested so far, of all", Low: firstPlottedPercent, High: firstPlottedPercent + 10},
		Y:     chart.Axis{Label: "GPUs in use, of all", Low: 100, High: 100},
	}
	for i := range results {
		c.Lines = append(c.Lines, newChartLine(&c, results[i].Policy, results[i].Allocation))
	}
	if len(results) > 0 && results[0].Bound != nil {
		c.Lines = append(c.Lines, newChartLine(&c, "bound", results[0].Bound))
	}
	c.Y.Low = max(0, math.Floor(c.Y.Low/10)*10)
	step := 5.0
	if c.Y.Low < 60 {
		step = 10
	}
	c.X.Ticks, c.Y.Ticks = c.X.PercentTicks(10), c.Y.PercentTicks(step)
	if start, end := max(c.X.Low, c.Y.Low), min(c.X.High, 100); start < end {
		c.Ideal = [2]chart.Point{{X: start, Y: start}, {X: end, Y: end}}
	}
	return c.WriteSVG(w)
}

// newChartLine returns the line of values by arrival, and extends the axes to include it.
func newChartLine(c *chart.LineChart, name string, cells map[string]MeanSD) chart.ChartLine {
	line := chart.ChartLine{Name: name}
	for arrival := firstPlottedPercent; arrival <= maxArrivalPercent; arrival++ {
		if cell, ok := cells[strconv.Itoa(arrival)]; ok {
			line.Points = append(line.Points, chart.Point{X: float64(arrival), Y: cell.Mean})
			c.X.High, c.Y.Low = max(c.X.High, float64(arrival)), min(c.Y.Low, cell.Mean)
		}
	}
	if n := len(line.Points); n > 0 {
		line.Name = fmt.Sprintf("%s %.1f %%", name, line.Points[n-1].Y)
	}
	return line
}
