package sim

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The plot's frame, in SVG units.
const (
	plotWidth, plotHeight = 910.0, 520.0
	plotLeft, plotRight   = 64.0, 734.0 // names of lines stand to the right
	plotTop, plotBottom   = 56.0, 464.0
	labelGap              = 16.0
)

// plotFrom is the first arrival that is drawn: before it policies differ
// little.
const plotFrom = 60

// hues are told apart by people who confuse red and green, and stand out on
// light and dark. The dashes tell apart what comes after them.
func hues() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f7f7f"}
}

const plotStyle = `
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

// Plot draws the allocation of each result by arrival, as SVG for light and
// dark screens. The dotted line is that all which arrives finds a place.
func Plot(w io.Writer, title string, results []Result) error {
	out := bufio.NewWriter(w)
	p := newPlot(out, results)
	p.printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">\n", plotWidth, plotHeight, html.EscapeString(title))
	p.printf("<style>%s</style>\n<rect class=\"paper\" width=\"%g\" height=\"%g\"/>\n", plotStyle, plotWidth, plotHeight)
	p.printf("<text class=\"title\" x=\"%g\" y=\"28\">%s</text>\n", plotLeft, html.EscapeString(title))
	p.grid()
	p.lines()
	p.printf("</svg>\n")
	return out.Flush()
}

type plot struct {
	out      io.Writer
	series   []series
	from, to float64 // arrival
	low      float64 // allocation; the top is 100 %
}

type series struct {
	name   string
	points [][2]float64 // arrival, allocation
}

func newPlot(out io.Writer, results []Result) *plot {
	p := &plot{out: out, from: plotFrom, to: plotFrom + 10, low: 100}
	for i := range results {
		s := series{name: results[i].Policy}
		for arrival := plotFrom; arrival <= overload; arrival++ {
			if c, ok := results[i].At(arrival); ok {
				s.points = append(s.points, [2]float64{float64(arrival), c.Mean})
				p.to, p.low = max(p.to, float64(arrival)), min(p.low, c.Mean)
			}
		}
		p.series = append(p.series, s)
	}
	if len(results) > 0 && results[0].Bound != nil {
		p.series = append(p.series, boundSeries(&results[0]))
	}
	p.low = max(0, math.Floor(p.low/10)*10)
	return p
}

func boundSeries(r *Result) series {
	s := series{name: "bound"}
	for _, arrival := range Arrivals() {
		if c, ok := r.Bound[strconv.Itoa(arrival)]; ok {
			s.points = append(s.points, [2]float64{float64(arrival), c.Mean})
		}
	}
	return s
}

// printf writes; the buffer behind keeps the error.
func (p *plot) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *plot) x(arrival float64) float64 {
	return plotLeft + (plotRight-plotLeft)*(arrival-p.from)/(p.to-p.from)
}

func (p *plot) y(allocation float64) float64 {
	return plotBottom - (plotBottom-plotTop)*(allocation-p.low)/max(100-p.low, 1)
}

func (p *plot) grid() {
	step := 5.0
	if p.low < 60 {
		step = 10
	}
	for a := p.low; a <= 100; a += step {
		p.printf("<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>\n", plotLeft, plotRight, p.y(a), p.y(a))
		p.printf("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%g %%</text>\n", plotLeft-8, p.y(a)+4, a)
	}
	for a := p.from; a <= p.to; a += 10 {
		p.printf("<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%g\" y2=\"%g\"/>\n", p.x(a), p.x(a), plotTop, plotBottom)
		p.printf("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g %%</text>\n", p.x(a), plotBottom+20, a)
	}
	p.printf("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">GPUs asked for so far, of all</text>\n", (plotLeft+plotRight)/2, plotBottom+44)
	p.printf("<text x=\"%g\" y=\"%g\">GPUs in use, of all</text>\n", plotLeft, plotTop-8)
	if start := max(p.from, p.low); start < min(p.to, 100) {
		end := min(p.to, 100)
		p.printf("<line class=\"ideal\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", p.x(start), p.y(start), p.x(end), p.y(end))
	}
}

// lines draws the series and writes each name beside its end, moved apart
// where ends are close.
func (p *plot) lines() {
	type label struct {
		name, hue, dash string
		y               float64
	}
	var labels []label
	colors := hues()
	for i, s := range p.series {
		if len(s.points) == 0 {
			continue
		}
		var path strings.Builder
		for _, at := range s.points {
			fmt.Fprintf(&path, " %.1f,%.1f", p.x(at[0]), p.y(at[1]))
		}
		dash := ""
		if round := i / len(colors); round > 0 {
			dash = fmt.Sprintf(" stroke-dasharray=\"%d 4\"", 4*round)
		}
		hue := colors[i%len(colors)]
		p.printf("<polyline class=\"line\" stroke=\"%s\"%s points=\"%s\"/>\n", hue, dash, path.String()[1:])
		last := s.points[len(s.points)-1]
		labels = append(labels, label{fmt.Sprintf("%s %.1f %%", s.name, last[1]), hue, dash, p.y(last[1])})
	}
	slices.SortStableFunc(labels, func(a, b label) int { return int(math.Copysign(1, a.y-b.y)) })
	above := math.Inf(-1)
	for _, l := range labels {
		above = max(l.y, above+labelGap)
		p.printf("<path class=\"line\" stroke=\"%s\"%s d=\"M%g %.1fh22\"/>\n", l.hue, l.dash, plotRight+6, above)
		p.printf("<text class=\"name\" x=\"%g\" y=\"%.1f\">%s</text>\n", plotRight+34, above+4, html.EscapeString(l.name))
	}
}
