// Package chart draws line charts as SVG for light and dark screens, with colors that remain distinct with red-green color
// blindness. The name of each line is next to its end.
package chart

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// The frame of the plot, in SVG units.
const (
	width, height = 910.0, 520.0
	left, right   = 64.0, 734.0 // names of lines are to the right
	top, bottom   = 56.0, 464.0
	labelGap      = 16.0
)

// LineChart is a chart with one or more lines.
type LineChart struct {
	Title string
	// X and Y are linear. For another scale the caller converts the values.
	X, Y Axis
	// Ideal is a dotted line between two points; equal points draw none.
	Ideal [2]Point
	Lines []ChartLine
}

// Axis is the range from Low to High.
type Axis struct {
	Label     string
	Low, High float64
	// Ticks have a line across the plot and a text each.
	Ticks []AxisTick
}

// PercentTicks returns ticks labelled in percent.
func (a *Axis) PercentTicks(step float64) (ticks []AxisTick) {
	for at := a.Low; at <= a.High; at += step {
		ticks = append(ticks, AxisTick{At: at, Text: fmt.Sprintf("%g %%", at)})
	}
	return ticks
}

// AxisTick is a labelled position on an axis.
type AxisTick struct {
	At   float64
	Text string
}

// Point is a point of a line.
type Point struct{ X, Y float64 }

// ChartLine has points from left to right. A line without points is not drawn.
type ChartLine struct {
	Name   string
	Points []Point
}

// lineColors returns colors that remain distinct with red-green color blindness and contrast with light and dark. Further
// lines repeat them with dashes.
func lineColors() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f"}
}

// style has the colors for light screens, and for dark ones where the reader prefers them.
const style = `
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.paper { fill: #ffffff }
.grid { stroke: #d0d7de; stroke-width: 1 }
.ideal { stroke: #57606a; stroke-dasharray: 2 4 }
.line { fill: none; stroke-width: 2.2; stroke-linejoin: round }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .paper { fill: #0d1117 }
  .grid { stroke: #30363d }
  .ideal { stroke: #8b949e }
}
`

// WriteSVG writes the chart.
func (c *LineChart) WriteSVG(w io.Writer) error {
	out := bufio.NewWriter(w)
	p := &svgWriter{c, out}
	title := html.EscapeString(c.Title)
	p.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n", width, height, title)
	p.printf("<style>%s</style>\n<rect class=\"paper\" width=\"%g\" height=\"%g\"/>\n", style, width, height)
	p.printf("<text class=\"title\" x=\"%g\" y=\"28\">%s</text>\n", left, title)
	p.drawGrid()
	p.drawLines()
	p.printf("</svg>\n")
	return out.Flush()
}

// svgWriter writes the parts of a chart.
type svgWriter struct {
	*LineChart
	// out is a bufio.Writer, so that errors are reported by its Flush.
	out io.Writer
}

// printf writes to the buffer, which keeps the first error.
func (w *svgWriter) printf(format string, args ...any) { fmt.Fprintf(w.out, format, args...) }

// fraction returns the position of a value on the axis, from 0 to 1.
func (a *Axis) fraction(at float64) float64 { return (at - a.Low) / max(a.High-a.Low, 1e-9) }

// x and y return the place of a value in SVG units. Values outside of the axis are drawn outside of the frame.
func (w *svgWriter) x(at float64) float64 { return left + (right-left)*w.X.fraction(at) }
func (w *svgWriter) y(at float64) float64 { return bottom - (bottom-top)*w.Y.fraction(at) }

// drawGrid draws the ticks and names of both axes, and the ideal line.
func (w *svgWriter) drawGrid() {
	for _, t := range w.Y.Ticks {
		w.printf("<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>\n", left, right, w.y(t.At), w.y(t.At))
		w.printf("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left-8, w.y(t.At)+4, html.EscapeString(t.Text))
	}
	for _, t := range w.X.Ticks {
		w.printf("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%g\" y2=\"%g\"/>\n", w.x(t.At), w.x(t.At), top, bottom)
		w.printf("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%s</text>\n", w.x(t.At), bottom+20, html.EscapeString(t.Text))
	}
	w.printf("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">%s</text>\n", (left+right)/2, bottom+44, html.EscapeString(w.X.Label))
	w.printf("<text x=\"%g\" y=\"%g\">%s</text>\n", left, top-8, html.EscapeString(w.Y.Label))
	if a, b := w.Ideal[0], w.Ideal[1]; a != b {
		w.printf("<line class=\"ideal\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", w.x(a.X), w.y(a.Y), w.x(b.X), w.y(b.Y))
	}
}

// lineLabel is the name of a line and where it is drawn.
type lineLabel struct {
	text, hue, dash string
	y               float64
}

// drawLines draws the lines and then their names, so that no line covers a name.
func (w *svgWriter) drawLines() {
	var labels []lineLabel
	colors := lineColors()
	for i, l := range w.Lines {
		if len(l.Points) == 0 {
			continue
		}
		var path strings.Builder
		for _, at := range l.Points {
			fmt.Fprintf(&path, " %.1f,%.1f", w.x(at.X), w.y(at.Y))
		}
		dash := ""
		if round := i / len(colors); round > 0 {
			dash = fmt.Sprintf(" stroke-dasharray=\"%d 4\"", 4*round)
		}
		hue := colors[i%len(colors)]
		w.printf("<polyline class=\"line\" stroke=\"%s\"%s points=\"%s\"/>\n", hue, dash, path.String()[1:])
		labels = append(labels, lineLabel{l.Name, hue, dash, w.y(l.Points[len(l.Points)-1].Y)})
	}
	w.drawLabels(labels)
}

// drawLabels writes each name next to the end of its line, moved down where ends are close.
func (w *svgWriter) drawLabels(labels []lineLabel) {
	slices.SortStableFunc(labels, func(a, b lineLabel) int { return int(math.Copysign(1, a.y-b.y)) })
	above := math.Inf(-1)
	for _, l := range labels {
		above = max(l.y, above+labelGap)
		w.printf("<path class=\"line\" stroke=\"%s\"%s d=\"M%g %.1fh22\"/>\n", l.hue, l.dash, right+6, above)
		w.printf("<text class=\"name\" x=\"%g\" y=\"%.1f\">%s</text>\n", right+34, above+4, html.EscapeString(l.text))
	}
}
