package replay

import (
	"fmt"
	"io"
	"math"

	"mesos-gpu/framework/sim/chart"
)

// PlotWaits draws, as SVG, the percentage of jobs that waited at most a given time, on a logarithmic scale. The results
// come from MergeResults.
func PlotWaits(w io.Writer, title string, names []string, results []*ReplayResult) error {
	c := chart.LineChart{Title: title, X: chart.Axis{Label: "waited at most", Low: 0, High: 1}, Y: chart.Axis{Label: "jobs", Low: 100, High: 100}}
	for i, r := range results {
		c.X.High = max(c.X.High, math.Log10(max(r.Wait.Max, 1)))
		c.Y.Low = min(c.Y.Low, r.wait.percentAtMost(1))
		c.Lines = append(c.Lines, chart.ChartLine{Name: fmt.Sprintf("%s, mean %s", names[i], formatSeconds(r.Wait.Mean))})
	}
	for i, r := range results {
		for at := 0.0; at < c.X.High+0.02; at += 0.02 {
			at := min(at, c.X.High)
			c.Lines[i].Points = append(c.Lines[i].Points, chart.Point{X: at, Y: r.wait.percentAtMost(math.Pow(10, at))})
		}
	}
	c.Y.Low = max(0, math.Floor(c.Y.Low/10)*10)
	c.Y.Ticks = c.Y.PercentTicks(10)
	for _, t := range []struct {
		seconds float64
		text    string
	}{{1, "1 s"}, {10, "10 s"}, {60, "1 min"}, {600, "10 min"}, {3600, "1 h"}, {36000, "10 h"}, {86400, "1 d"}, {864000, "10 d"}, {8640000, "100 d"}} {
		if at := math.Log10(t.seconds); at <= c.X.High {
			c.X.Ticks = append(c.X.Ticks, chart.AxisTick{At: at, Text: t.text})
		}
	}
	return c.WriteSVG(w)
}

// PlotFinishTimes draws, as SVG, the percentage of jobs whose finish-time fairness exceeds a given one, both on logarithmic
// scales. The results come from MergeResults of replays with ReplaySettings.OwnShare.
func PlotFinishTimes(w io.Writer, title string, names []string, results []*ReplayResult) error {
	c := chart.LineChart{
		Title: title, X: chart.Axis{Label: "completion, divided by that of the virtual cluster alone on its agents", Low: -1, High: 1},
		Y: chart.Axis{Label: "jobs above", Low: -2, High: 2},
	}
	for i, r := range results {
		worst := math.Log10(max(r.FinishTimeFairness.Max, 0.1))
		c.X.High = max(c.X.High, worst)
		l := chart.ChartLine{Name: fmt.Sprintf("%s, worst %.3g", names[i], r.FinishTimeFairness.Max)}
		for at := c.X.Low; at < worst+0.02; at += 0.02 {
			above := max(r.finish.countAbove(math.Pow(10, at)), 1) // the worst one at the end of the line
			l.Points = append(l.Points, chart.Point{X: min(at, worst), Y: max(math.Log10(100*float64(above)/float64(len(r.finish.list))), c.Y.Low)})
		}
		c.Lines = append(c.Lines, l)
	}
	for _, x := range []float64{0.1, 0.2, 0.5, 1, LateFrom, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if at := math.Log10(x); at <= c.X.High {
			c.X.Ticks = append(c.X.Ticks, chart.AxisTick{At: at, Text: fmt.Sprintf("%g", x)})
		}
	}
	for _, y := range []float64{0.01, 0.1, 1, 10, 100} {
		c.Y.Ticks = append(c.Y.Ticks, chart.AxisTick{At: math.Log10(y), Text: fmt.Sprintf("%g %%", y)})
	}
	return c.WriteSVG(w)
}

// formatSeconds rounds a time for a reader.
func formatSeconds(seconds float64) string {
	switch {
	case seconds < 120:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 7200:
		return fmt.Sprintf("%.0f min", seconds/60)
	default:
		return fmt.Sprintf("%.1f h", seconds/3600)
	}
}

// percentAtMost returns the percentage of values that do not exceed x. computeStats must have sorted them.
func (s *sampleSet) percentAtMost(x float64) float64 {
	if len(s.list) == 0 {
		return 100
	}
	return 100 - 100*float64(s.countAbove(x))/float64(len(s.list))
}
