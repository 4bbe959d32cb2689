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

	"mesos-gpu/internal/testing/testneeds"
)

// metricLabels has the labels of each metric, by name.
type metricLabels map[string]map[string]bool

var (
	samplePattern = regexp.MustCompile(`(?m)^(mesos_gpu_[a-z_]+)(?:\{(.*)\})? `)
	labelPattern  = regexp.MustCompile(`([a-z_]+)="`)
	// gaugePattern finds the names of the extension's gauges, and their label if they have
	// one.
	gaugePattern = regexp.MustCompile(`"(marathon_[a-z_]+)", "[^"]*", (nil|map\[string\]string\{"([a-z]+)")`)
)

// readExportedMetrics reads the exported metrics from the expected output in the collectors'
// own tests, and from the list of Marathon's gauges.
func readExportedMetrics(t *testing.T) metricLabels {
	t.Helper()
	all := metricLabels{"up": {"job": true, "instance": true}}
	for _, file := range []string{
		"isolator/metrics/testdata/metrics.txt", "isolator/metrics/testdata/parts.txt",
		"framework/metrics/testdata/some.txt", "framework/metrics/testdata/counters.txt",
	} {
		for _, m := range samplePattern.FindAllStringSubmatch(readFile(t, "../"+file), -1) {
			labels := map[string]bool{"job": true, "instance": true} // of the scrape
			for _, p := range labelPattern.FindAllStringSubmatch(m[2], -1) {
				labels[p[1]] = true
			}
			all[m[1]] = labels
		}
	}
	for _, m := range gaugePattern.FindAllStringSubmatch(readFile(t, "../marathon/control/gauges.go"), -1) {
		all["mesos_gpu_"+m[1]] = map[string]bool{"job": true, "instance": true, m[3]: true}
	}
	for _, m := range accountingPattern.FindAllStringSubmatch(readFile(t, "../framework/metrics/collector.go"), -1) {
		all["mesos_gpu_scheduler_"+m[1]] = map[string]bool{"job": true, "instance": true}
	}
	if len(all) < 60 {
		t.Fatalf("found %d metrics, want at least 60: the patterns are broken", len(all))
	}
	return all
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	// accountingPattern finds the metrics that only a scheduler with accounting exports.
	accountingPattern = regexp.MustCompile(`desc\("(accounting_[a-z_]+)", "[^"]*"\)`)

	metricPattern   = regexp.MustCompile(`\b(mesos_gpu_[a-z_]+|up)\b(?:\{([^}]*)\})?`)
	matcherPattern  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	groupingPattern = regexp.MustCompile(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`)
	legendPattern   = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
)

// findUnknownNames returns the metrics and labels in an expression that are not exported. A
// label in a grouping or in the shown text must belong to at least one metric of the
// expression.
func (all metricLabels) findUnknownNames(expr, shown string) (problems []string) {
	union := map[string]bool{}
	found := metricPattern.FindAllStringSubmatch(expr, -1)
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
		for _, l := range matcherPattern.FindAllStringSubmatch(m[2], -1) {
			if !labels[l[1]] {
				problems = append(problems, m[1]+" has no label "+l[1])
			}
		}
	}
	var names []string
	for _, g := range groupingPattern.FindAllStringSubmatch(expr, -1) {
		names = append(names, strings.Split(g[1], ",")...)
	}
	for _, l := range legendPattern.FindAllStringSubmatch(shown, -1) {
		names = append(names, l[1])
	}
	for _, name := range names {
		if !union[strings.TrimSpace(name)] {
			problems = append(problems, "nothing has the label "+name)
		}
	}
	return problems
}

func TestUnknownMetricsAndLabelsAreFound(t *testing.T) {
	all := metricLabels{"mesos_gpu_a": {"x": true}}
	for expr, want := range map[string]int{
		`mesos_gpu_a{x="1"}`: 0, `mesos_gpu_b`: 1, `mesos_gpu_a{y="1"}`: 1, `sum by (y) (mesos_gpu_a)`: 1, `1`: 1, `rate(mesos_gpu_a[5m]) / mesos_gpu_b{z="1"}`: 2,
	} {
		if got := all.findUnknownNames(expr, ""); len(got) != want {
			t.Errorf("%s: got %q, want %d problems", expr, got, want)
		}
	}
	if got := all.findUnknownNames("mesos_gpu_a", "{{y}} {{x}}"); len(got) != 1 {
		t.Errorf("legend: got %q, want one problem", got)
	}
}

// TestMetricsAreDocumented checks that the page about metrics contains each metric of the
// scheduler with its labels, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	all, page := readExportedMetrics(t), readFile(t, "../docs/reference/metrics.md")
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

// dashboard has the fields of a Grafana dashboard that the tests read.
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

// TestDashboardsUseExportedMetrics checks that each panel uses exported metrics and labels,
// that each variable is defined in the dashboard, that no panels overlap, and that Prometheus
// accepts every expression.
func TestDashboardsUseExportedMetrics(t *testing.T) {
	all := readExportedMetrics(t)
	files, err := filepath.Glob("grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("got %q, %v, want 3 dashboards", files, err)
	}
	var rules strings.Builder
	rules.WriteString("groups: [{name: panels, rules: [\n")
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(readFile(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		taken := map[[2]int]string{}
		for _, v := range d.Templating.List {
			if problems := all.findUnknownNames(v.Query, ""); v.Query != "prometheus" && len(problems) > 0 {
				t.Errorf("%s: variable %s: %q", file, v.Name, problems)
			}
		}
		for _, p := range d.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Errorf("%s: panel %q overlaps %q", file, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			for _, target := range p.Targets {
				expr := target.Expr
				if problems := all.findUnknownNames(expr, target.LegendFormat); len(problems) > 0 {
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
	runPromtool(t, "check", "rules", "--lint=none", writeRules(t, rules.String()))
}

// TestAlertsUseExportedMetrics checks that each alert uses exported metrics and has a case in
// alerts_test.yml, and runs these cases with promtool. In its case an alert fires alone, and a
// healthy cluster fires none.
func TestAlertsUseExportedMetrics(t *testing.T) {
	all := readExportedMetrics(t)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "prometheus/alerts.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	cases := readFile(t, "prometheus/alerts_test.yml")
	alerts := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			alerts++
			if problems := all.findUnknownNames(r.Expr, r.Annotations["summary"]+r.Annotations["description"]); len(problems) > 0 {
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
	runPromtool(t, "check", "rules", "prometheus/alerts.yml")
	runPromtool(t, "test", "rules", "prometheus/alerts_test.yml")
}

func writeRules(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func runPromtool(t *testing.T, args ...string) {
	t.Helper()
	program := testneeds.RequireProgram(t, "promtool", "prometheus, or run scripts/package-tools.sh")
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}
