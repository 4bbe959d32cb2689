package sim

import (
	"encoding/csv"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
)

var family = flag.Int("family", 4, "how many traces to derive from the default one; make sim derives 100")

// A trace on which ten seeds give headroom less than fgd by belowByChance points, at the worst percent of arrival, is measured
// with otherSeeds that have no part in the first figure. Few traces may remain below, and by little. A mean of few seeds may be
// lower by familyChance.
const (
	belowByChance   = 0.05
	otherSeeds      = 100
	allowedBelowFGD = 0.1
	maxTracesBelow  = 3
	familyChance    = 0.7
)

// TestHeadroomOnDerivedTraces compares headroom with fgd on traces that differ from the recorded ones, at each percent of
// arrival from 80 to 130. No parameter of headroom was chosen for a single one of them.
func TestHeadroomOnDerivedTraces(t *testing.T) {
	base := openb(t, *traces, "default")
	var worst []float64
	rows := [][]string{{"variant", "typed", "shared", "multi_gpu", "cpu_factor", "uniform_agents", "seeds", "worst", "worst_at", "at_80", "at_100", "at_130"}}
	for v := range int64(*family) {
		variant := DrawVariant(v + 1)
		trace, seeds, allowed := base.Derive(variant), *seedsOf, allowedBelowFGD
		gain := trace.gainOverFGD(t, 42, seeds)
		least, at := gain.worst()
		switch {
		case seeds < 10:
			allowed += familyChance
		case least < -belowByChance:
			gain = trace.gainOverFGD(t, 42+int64(seeds), otherSeeds)
			seeds = otherSeeds
			least, at = gain.worst()
		}
		if least < -allowed {
			t.Errorf("%+v: headroom is %.2f points below fgd at %d %%, allowed %.2f", variant, -least, at, allowed)
		}
		worst = append(worst, least)
		row := []string{strconv.FormatInt(variant.Seed, 10)}
		for _, x := range []float64{variant.TypedTasks, variant.SharedTasks, variant.MultiGPUTasks, variant.CPUFactor} {
			row = append(row, formatCell(x))
		}
		row = append(row, strconv.FormatBool(variant.UniformAgents), strconv.Itoa(seeds), formatCell(least), strconv.Itoa(at),
			formatCell(gain[80]), formatCell(gain[100]), formatCell(gain[130]))
		rows = append(rows, row)
	}
	below := 0
	for _, x := range worst {
		if x < -belowByChance {
			below++
		}
	}
	slices.Sort(worst)
	t.Logf("headroom minus fgd at the worst arrival of %d traces: least %.2f, median %.2f, most %.2f points; below -%.2f on %d",
		len(worst), worst[0], worst[len(worst)/2], worst[len(worst)-1], belowByChance, below)
	if below > maxTracesBelow && *seedsOf >= 10 {
		t.Errorf("headroom is below fgd by more than %.2f points on %d traces, want at most %d", belowByChance, below, maxTracesBelow)
	}
	if *tables != "" {
		writeFamily(t, filepath.Join(*tables, "derived.csv"), rows)
	}
}

// policyGain is the allocation of headroom minus that of fgd, by percent of arrival from 80 to 130.
type policyGain map[int]float64

// gainOverFGD returns the mean gain over so many seeds.
func (t *ClusterTrace) gainOverFGD(tb testing.TB, firstSeed int64, seeds int) policyGain {
	tb.Helper()
	sweep := PolicySweep{Trace: t, Policies: []string{"headroom", "fgd"}, SkipBounds: true, Workers: runtime.GOMAXPROCS(0)}
	for i := range seeds {
		sweep.Seeds = append(sweep.Seeds, firstSeed+int64(i))
	}
	results, err := sweep.Run(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	gain := policyGain{}
	for arrival := 80; arrival <= 130; arrival++ {
		if ours, found := results[0].AllocationAt(arrival); found {
			fgd, _ := results[1].AllocationAt(arrival)
			gain[arrival] = ours.Mean - fgd.Mean
		}
	}
	return gain
}

// worst returns the least gain and the first arrival that has it.
func (g policyGain) worst() (least float64, at int) {
	for _, arrival := range slices.Sorted(maps.Keys(g)) {
		if at == 0 || g[arrival] < least {
			least, at = g[arrival], arrival
		}
	}
	return least, at
}

func formatCell(x float64) string { return fmt.Sprintf("%.2f", x) }

func writeFamily(t *testing.T, path string, rows [][]string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// Equal variants give equal traces; the zero changes nothing; each property is met within chance.
func TestDerivedTracesHaveTheirProperties(t *testing.T) {
	base := openb(t, "testdata", "default")
	part := func(trace *ClusterTrace, of, among func(*RecordedTask) bool) float64 {
		n := len(trace.selectTasks(among))
		return float64(len(trace.selectTasks(func(t *RecordedTask) bool { return among(t) && of(t) }))) / float64(n)
	}
	hasGPU := func(t *RecordedTask) bool { return t.GPUs > 0 }
	v := TraceVariant{Seed: 3, TypedTasks: 0.3, SharedTasks: 0.6, MultiGPUTasks: 0.2, CPUFactor: 2, UniformAgents: true}
	d := base.Derive(v)
	for name, c := range map[string]struct{ got, want float64 }{
		"typed":  {part(d, func(t *RecordedTask) bool { return t.Models != nil }, hasGPU), 0.3},
		"multi":  {part(d, func(t *RecordedTask) bool { return t.GPUs > 1 }, hasGPU), 0.2},
		"shared": {part(d, func(t *RecordedTask) bool { return t.GPUMilli < milliPerGPU }, func(t *RecordedTask) bool { return t.GPUs == 1 }), 0.6},
	} {
		if c.got < c.want-0.03 || c.got > c.want+0.03 {
			t.Errorf("%s: %.3f of the tasks, want %.1f", name, c.got, c.want)
		}
	}
	models, most := map[string]int{}, 0
	for i := range d.Agents {
		models[d.Agents[i].Model]++
		most = max(most, models[d.Agents[i].Model])
	}
	if 2*most < len(d.Agents)-1 {
		t.Errorf("%d of %d agents have one model, want half", most, len(d.Agents))
	}
	again := base.Derive(v)
	if !slices.EqualFunc(again.Tasks, d.Tasks, func(a, b RecordedTask) bool { return a.shapeOf() == b.shapeOf() }) || !slices.Equal(again.Agents, d.Agents) {
		t.Error("equal variants give different traces")
	}
	same := base.Derive(TraceVariant{Seed: 3, SharedTasks: -1, MultiGPUTasks: -1})
	if !slices.EqualFunc(same.Tasks, base.Tasks, func(a, b RecordedTask) bool { return a.shapeOf() == b.shapeOf() }) || !slices.Equal(same.Agents, base.Agents) {
		t.Error("a variant without changes differs from the trace")
	}
}

// Where one GPU task in fifty names a type, no kind of them is typical. headroom leaves them GPUs of their types until the
// cluster is nearly full, and fgd does not.
func TestHeadroomLeavesTypesToFewTasks(t *testing.T) {
	trace := openb(t, "testdata", "default").Derive(TraceVariant{Seed: 61, SharedTasks: -1, MultiGPUTasks: -1, TypedTasks: 0.02})
	gain := trace.gainOverFGD(t, 42, 3)
	for _, arrival := range []int{90, 95} {
		if gain[arrival] <= 0 {
			t.Errorf("at %d %% headroom allocates %.3f points more than fgd, want more", arrival, gain[arrival])
		}
	}
}
