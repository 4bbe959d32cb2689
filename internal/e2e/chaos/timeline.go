package chaos

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

const (
	pixelsPerSecond = 4
	rowHeight       = 14
	labelWidth      = 170
)

// timelineBar is a bar or a band of the timeline, in pixels.
type timelineBar struct {
	X, Y, Width, Height float64
	Color, Title        string
}

// timelineRow is the name of a row.
type timelineRow struct {
	Y    float64
	Name string
}

// timeline is the data of timelinePage.
type timeline struct {
	Title         string
	Violations    []Violation
	Width, Height float64
	Rows          []timelineRow
	Bands, Bars   []timelineBar
	Ticks         []timelineRow // Y is the position to the right
}

// WriteTimeline writes a history as an HTML page without scripts: faults as bands, and above
// them a row for each device with its holders, then a row for each job with its tasks.
func WriteTimeline(w io.Writer, title string, events []Event, violations []Violation) error {
	c := &checker{events: sortByTime(events)}
	c.collectFaults()
	c.collectAttempts()
	if len(c.events) == 0 {
		return nil
	}
	from, to := c.events[0].At, c.events[len(c.events)-1].At
	x := func(at float64) float64 { return labelWidth + (at-from)*pixelsPerSecond }
	page := timeline{Title: title, Violations: violations, Width: x(to) + 20}

	devices, jobs := map[string][]*attempt{}, map[string][]*attempt{}
	for _, a := range c.attempts {
		for _, device := range a.devices {
			key := a.agent + " " + device[:min(len(device), 12)]
			devices[key] = append(devices[key], a)
		}
		jobs[a.job] = append(jobs[a.job], a)
	}
	byBegin := func(a, b string) int { return cmp.Compare(jobs[a][0].began, jobs[b][0].began) }
	y := float64(2 * rowHeight)
	addRow := func(name string, attempts []*attempt) {
		page.Rows = append(page.Rows, timelineRow{y + rowHeight - 4, name})
		for _, a := range attempts {
			end := "no end recorded"
			if a.completed {
				end = "ended"
			}
			page.Bars = append(page.Bars, timelineBar{x(a.began), y + 1, max(1, (a.last-a.began)*pixelsPerSecond), rowHeight - 2, jobColor(a.job),
				fmt.Sprintf("%s on %s, %s: %.2f to %.2f, %s", a.task, a.agent, strings.Join(a.devices, " "), a.began, a.last, end)})
		}
		y += rowHeight
	}
	for _, device := range slices.Sorted(maps.Keys(devices)) {
		addRow(device, devices[device])
	}
	y += rowHeight
	for _, name := range slices.SortedStableFunc(maps.Keys(jobs), byBegin) {
		addRow(name, jobs[name])
	}
	page.Height = y + rowHeight
	for _, f := range c.faults {
		page.Bands = append(page.Bands, timelineBar{x(f.from), 0, (min(f.to, to) - f.from) * pixelsPerSecond, page.Height, "#d33",
			fmt.Sprintf("fault %s: %s, %.2f to %.2f", f.name, f.detail, f.from, f.to)})
	}
	for at := math.Ceil(from/30) * 30; at < to; at += 30 {
		page.Ticks = append(page.Ticks, timelineRow{x(at), fmt.Sprintf("%.0f", at)})
	}
	return timelinePage.Execute(w, page)
}

// jobColor returns a color for the kind of a job: its name up to the first digit.
func jobColor(name string) string {
	end := strings.IndexAny(name, "0123456789")
	if end < 0 {
		end = len(name)
	}
	h := fnv.New32a()
	h.Write([]byte(name[:end])) // never fails
	return fmt.Sprintf("hsl(%d 60%% 45%%)", h.Sum32()%360)
}

var timelinePage = template.Must(template.New("timeline").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font:12px sans-serif} svg{font:10px sans-serif} li{color:#b00}</style>
<h1>{{.Title}}</h1>
{{if .Violations}}<ul>{{range .Violations}}<li>{{.Rule}} at {{printf "%.2f" .At}}: {{.Detail}}</li>{{end}}</ul>{{else}}<p>No violations.</p>{{end}}
<p>Red bands are faults. Upper rows: holders of each device; lower rows: tasks of each job. Times are seconds since the machine's start. Point at a bar or a band for details.</p>
<svg width="{{.Width}}" height="{{.Height}}">
{{range .Bands}}<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}" fill="{{.Color}}" fill-opacity=".15"><title>{{.Title}}</title></rect>
{{end}}{{range .Ticks}}<text x="{{.Y}}" y="10">{{.Name}}</text>
{{end}}{{range .Rows}}<text x="0" y="{{.Y}}">{{.Name}}</text>
{{end}}{{range .Bars}}<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}" fill="{{.Color}}"><title>{{.Title}}</title></rect>
{{end}}</svg></html>
`))
