package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/internal/testneeds"
)

// labelsOf are the labels of each metric, by its name.
type labelsOf map[string]map[string]bool

var (
	sample = regexp.MustCompile(`(?m)^(mesos_gpu_[a-z_]+)(?:\{(.*)\})? `)
	pair   = regexp.MustCompile(`([a-z_]+)="`)
	// gauge finds what the extension counts, and the label that it may have.
	gauge = regexp.MustCompile(`"(marathon_[a-z_]+)", "[^"]*", (nil|map\[string\]string\{"([a-z]+)")`)
)

// exported reads the metrics that there are from what the collectors' own tests
// compare with, and from the list of Marathon's gauges.
func exported(t *testing.T) labelsOf {
	t.Helper()
	all := labelsOf{"up": {"job": true, "instance": true}}
	for _, file := range []string{"isolator/metrics/testdata/metrics.txt", "isolator/metrics/testdata/parts.txt", "framework/metrics/testdata/some.txt", "framework/metrics/testdata/counters.txt"} {
		for _, m := range sample.FindAllStringSubmatch(read(t, "../"+file), -1) {
			labels := map[string]bool{"job": true, "instance": true} // of the scrape
			for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
				labels[p[1]] = true
			}
			all[m[1]] = labels
		}
	}
	for _, m := range gauge.FindAllStringSubmatch(read(t, "../marathon/control/gauges.go"), -1) {
		all["mesos_gpu_"+m[1]] = map[string]bool{"job": true, "instance": true, m[3]: true}
	}
	if len(all) < 60 {
		t.Fatalf("found %d metrics, want at least 60: the patterns are broken", len(all))
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	metric   = regexp.MustCompile(`\b(mesos_gpu_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	legend   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
)

// check says what an expression names that is not there. Labels that group, and
// those that are shown, must be some metric's of the expression.
func (all labelsOf) check(expr, shown string) (problems []string) {
	union := map[string]bool{}
	found := metric.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		return []string{"no metric"}
	}
	for _, m := range found {
		labels, ok := all[m[1]]
		if !ok {
			problems = append(problems, "no metric "+m[1])
		}
		for label := range labels {
			union[label] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !labels[l[1]] {
				problems = append(problems, m[1]+" has no label "+l[1])
			}
		}
	}
	var names []string
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		names = append(names, strings.Split(g[1], ",")...)
	}
	for _, l := range legend.FindAllStringSubmatch(shown, -1) {
		names = append(names, l[1])
	}
	for _, name := range names {
		if !union[strings.TrimSpace(name)] {
			problems = append(problems, "nothing has the label "+name)
		}
	}
	return problems
}

func TestCheckFindsWhatIsNotThere(t *testing.T) {
	all := labelsOf{"mesos_gpu_a": {"x": true}}
	for expr, want := range map[string]int{
		`mesos_gpu_a{x="1"}`: 0, `mesos_gpu_b`: 1, `mesos_gpu_a{y="1"}`: 1, `sum by (y) (mesos_gpu_a)`: 1, `1`: 1, `rate(mesos_gpu_a[5m]) / mesos_gpu_b{z="1"}`: 2,
	} {
		if got := all.check(expr, ""); len(got) != want {
			t.Errorf("%s: got %q, want %d problems", expr, got, want)
		}
	}
	if got := all.check("mesos_gpu_a", "{{y}} {{x}}"); len(got) != 1 {
		t.Errorf("legend: got %q, want one problem", got)
	}
}

// TestMetricsAreDocumented: each of the scheduler's metrics is in the page
// about them, with its labels, and each that stands there is exported.
func TestMetricsAreDocumented(t *testing.T) {
	all, page := exported(t), read(t, "../docs/reference/metrics.md")
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(mesos_gpu_(?:scheduler|marathon)_[a-z_]+)` (.*)$").FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m[2]
		if all[m[1]] == nil && all[m[1]+"_bucket"] == nil {
			t.Errorf("docs/reference/metrics.md has %s, which is not exported", m[1])
		}
	}
	for name, labels := range all {
		name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if !strings.HasPrefix(name, "mesos_gpu_scheduler_") && !strings.HasPrefix(name, "mesos_gpu_marathon_") {
			continue
		}
		row, ok := rows[name]
		if !ok {
			t.Errorf("docs/reference/metrics.md lacks %s", name)
		}
		for label := range labels {
			if !strings.Contains(row, "`"+label+"`") && !slices.Contains([]string{"", "le", "job", "instance"}, label) {
				t.Errorf("docs/reference/metrics.md does not say that %s has the label %s", name, label)
			}
		}
	}
	if len(rows) < 30 {
		t.Errorf("found %d rows, want at least 30: the pattern is broken", len(rows))
	}
}

// dashboard is what the tests read of Grafana's.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Query string }
	}
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ Expr, LegendFormat string }
		GridPos struct{ H, W, X, Y int }
	}
}

// TestDashboards: each metric of a panel is exported with the labels that the
// panel names, each variable is the dashboard's own, no panels overlap, and
// Prometheus takes every expression.
func TestDashboards(t *testing.T) {
	all := exported(t)
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("got %q, %v, want 3 dashboards", files, err)
	}
	var rules strings.Builder
	rules.WriteString("groups: [{name: panels, rules: [\n")
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(read(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		taken := map[[2]int]string{}
		for _, v := range d.Templating.List {
			if problems := all.check(v.Query, ""); v.Query != "prometheus" && len(problems) > 0 {
				t.Errorf("%s: variable %s: %q", file, v.Name, problems)
			}
		}
		for _, p := range d.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Errorf("%s: %q lies on %q", file, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				expr := target.Expr
				if problems := all.check(expr, target.LegendFormat); len(problems) > 0 {
					t.Errorf("%s: %s: %s: %q", file, p.Title, expr, problems)
				}
				for _, v := range d.Templating.List {
					expr = strings.ReplaceAll(expr, "$"+v.Name, "x")
				}
				if strings.Contains(expr, "$") {
					t.Errorf("%s: %s: %s names a variable that the dashboard lacks", file, p.Title, expr)
				}
				fmt.Fprintf(&rules, "  {record: panel, expr: %q},\n", expr)
			}
		}
	}
	rules.WriteString("]}]\n")
	promtool(t, "check", "rules", "--lint=none", written(t, rules.String()))
}

// TestAlerts: each alert asks for metrics that are exported and has a case of
// its own in alerts_test.yml, which promtool runs: there it fires alone, and
// what is well fires nothing.
func TestAlerts(t *testing.T) {
	all := exported(t)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "prometheus/alerts.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	cases := read(t, "prometheus/alerts_test.yml")
	alerts := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			alerts++
			if problems := all.check(r.Expr, r.Annotations["summary"]+r.Annotations["description"]); len(problems) > 0 {
				t.Errorf("%s: %q", r.Alert, problems)
			}
			if !strings.Contains(cases, "- name: "+r.Alert+"\n") || !strings.Contains(cases, `alertname="`+r.Alert+`"}`) {
				t.Errorf("%s has no case in alerts_test.yml", r.Alert)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("got %d alerts, want at least 10", alerts)
	}
	promtool(t, "check", "rules", "prometheus/alerts.yml")
	promtool(t, "test", "rules", "prometheus/alerts_test.yml")
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	program := testneeds.RequireProgram(t, "promtool", "prometheus, or run scripts/package-tools.sh")
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}
