package sim

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newSmallTrace returns a trace with few agents, on which a run is fast.
func newSmallTrace(t *testing.T, tasks ...RecordedTask) *ClusterTrace {
	t.Helper()
	agents := []RecordedAgent{
		{Name: "n1", CPUMilli: 32000, MemMiB: 1 << 16, GPUs: 4, Model: "T4"},
		{Name: "n2", CPUMilli: 32000, MemMiB: 1 << 16, GPUs: 2, Model: "A10"},
	}
	trace, err := NewTrace(agents, tasks)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func repeatTask(n int, make func(i int) RecordedTask) []RecordedTask {
	var list []RecordedTask
	for i := range n {
		task := make(i)
		task.Name = fmt.Sprintf("t%03d", i)
		list = append(list, task)
	}
	return list
}

// Tasks are drawn or removed until they request 1.3 times the GPUs.
func TestArrivalsOversubscribeCluster(t *testing.T) {
	one := func(int) RecordedTask { return RecordedTask{CPUMilli: 100, GPUs: 1, GPUMilli: 500} }
	for name, n := range map[string]int{"few": 3, "many": 100, "as wanted": 15} {
		trace := newSmallTrace(t, repeatTask(n, one)...)
		seen := map[string]bool{}
		for seed := range int64(5) {
			a := trace.drawArrivals(seed)
			asked, order := int64(0), ""
			for _, task := range a.tasks {
				asked += task.totalMilli()
				order += task.Name
			}
			if asked > 7800 || asked <= 7800-500 {
				t.Errorf("%s, seed %d: tasks request %d thousandths of 6 GPUs, want the largest number below 7800", name, seed, asked)
			}
			seen[order] = true
		}
		if len(seen) < 4 {
			t.Errorf("%s: 5 seeds have %d orders", name, len(seen))
		}
	}
}

func TestTypicalTasks(t *testing.T) {
	tasks := repeatTask(100, func(i int) RecordedTask {
		switch {
		case i < 50:
			return RecordedTask{CPUMilli: 4000, MemMiB: int64(i), GPUs: 1, GPUMilli: 1000} // kinds do not depend on memory
		case i < 70:
			return RecordedTask{CPUMilli: 100}
		case i < 90:
			return RecordedTask{CPUMilli: 200}
		case i < 95:
			return RecordedTask{CPUMilli: 100, GPUs: 1, GPUMilli: 300, Models: []string{"T4", "A10"}}
		default:
			return RecordedTask{CPUMilli: int64(i), GPUs: 1, GPUMilli: 1000} // all different, and beyond 95 %
		}
	})
	var got []string
	for _, kind := range newSmallTrace(t, tasks...).TypicalTasks() {
		d := kind.Demand
		got = append(got, fmt.Sprintf("%g× %g CPUs, %d GPUs, %d, %v", kind.Weight, d.Amount.CPUs, d.Request.GPUs, d.Request.Share.MemMiB, d.Request.Types.Include))
	}
	want := []string{"50× 4 CPUs, 1 GPUs, 0, []", "20× 0.2 CPUs, 0 GPUs, 0, []", "20× 0.1 CPUs, 0 GPUs, 0, []", "5× 0.1 CPUs, 1 GPUs, 300, [T4 A10]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("typical tasks (-want +got):\n%s", diff)
	}
}

// The figures of a run are consistent with each other.
func TestSeedRunCounts(t *testing.T) {
	trace := newSmallTrace(t, repeatTask(8, func(i int) RecordedTask {
		return RecordedTask{CPUMilli: 1000, GPUs: 1, GPUMilli: 1000, Models: []string{"T4", "A10"}[i%2 : i%2+1]}
	})...)
	for _, policy := range PolicyNames() {
		run := trace.RunSeed(policy, trace.TypicalTasks(), 42, 0)
		if run.Decisions != 7 { // 7.8 GPUs
			t.Errorf("%s: %d tasks arrived, want 7", policy, run.Decisions)
		}
		used := run.Types["T4"]*4/100 + run.Types["A10"]*2/100
		if got := float64(run.Decisions - run.Unplaced); got != used {
			t.Errorf("%s: %g tasks run on %g GPUs", policy, got, used)
		}
		if last := run.Allocation[117]; last != 100*used/6 {
			t.Errorf("%s: at 117 %% %g %% are allocated, want %g", policy, last, 100*used/6)
		}
		if idle := 100 - run.Allocation[117]; run.Fragmentation > idle || run.Fragmentation < 0 {
			t.Errorf("%s: %g %% are fragmented of %g %% idle", policy, run.Fragmentation, idle)
		}
	}
}

// The number of concurrent runs does not change results.
func TestSweepIsDeterministic(t *testing.T) {
	trace := newSmallTrace(t, repeatTask(40, func(i int) RecordedTask { return RecordedTask{CPUMilli: int64(i), GPUs: 1, GPUMilli: 100 + i%9*100} })...)
	var first []PolicyResult
	for _, workers := range []int{1, 3} {
		s := PolicySweep{Trace: trace, Policies: []string{"random", "binpack"}, Seeds: []int64{1, 2}, Workers: workers}
		done := 0
		s.StepDone = func() { done++ }
		got, err := s.Run(context.Background())
		if err != nil || done != 6 || s.CountSteps() != 6 {
			t.Fatalf("%d of 4 runs and 2 bounds, %d steps: %v", done, s.CountSteps(), err)
		}
		for i := range got {
			got[i].DecisionsPerSecond = 0
		}
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Errorf("%d workers (-one +these):\n%s", workers, diff)
		}
	}
	if r := first[0]; r.Policy != "random" || r.Agents != 2 || r.GPUs != 6 || r.Tasks != 40 || !slices.Equal(r.Seeds, []int64{1, 2}) {
		t.Errorf("got %s, %d agents, %d GPUs, %d tasks, seeds %v", r.Policy, r.Agents, r.GPUs, r.Tasks, r.Seeds)
	}
}

func TestSweepRejects(t *testing.T) {
	trace := newSmallTrace(t, RecordedTask{Name: "a", GPUs: 1, GPUMilli: 1000})
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	for _, c := range []struct {
		s    PolicySweep
		want string
	}{
		{PolicySweep{Trace: trace, Policies: []string{"best"}, Seeds: []int64{1}}, `policy "best" is not one of headroom, binpack, spread, `},
		{PolicySweep{Trace: trace, Policies: []string{"fgd"}}, "no seeds to run"},
		{PolicySweep{Trace: trace, Policies: []string{"fgd"}, Seeds: make([]int64, 1000)}, "enough"},
	} {
		if _, err := c.s.Run(ctx); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestMeanSD(t *testing.T) {
	if diff := cmp.Diff(MeanSD{Mean: 5, SD: 2}, newMeanSD([]float64{3, 7, 3, 7})); diff != "" {
		t.Errorf("four (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(MeanSD{Mean: 3}, newMeanSD([]float64{3})); diff != "" {
		t.Errorf("one (-want +got):\n%s", diff)
	}
}

// A plot is valid XML with one line for each policy. The names are next to the lines and do not overlap.
func TestPlot(t *testing.T) {
	var results []PolicyResult
	for i := range 9 {
		r := PolicyResult{Policy: fmt.Sprintf("p%d<&>", i), Allocation: map[string]MeanSD{}}
		for arrival := 0; arrival <= 130; arrival++ {
			r.Allocation[fmt.Sprint(arrival)] = MeanSD{Mean: min(float64(arrival), 90+float64(i)/10)}
		}
		results = append(results, r)
	}
	results = append(results, PolicyResult{Policy: "empty"})
	var text strings.Builder
	if err := PlotAllocation(&text, "a < b", results); err != nil {
		t.Fatal(err)
	}
	lines, labels, last := 0, 0, 0.0
	for d := xml.NewDecoder(strings.NewReader(text.String())); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			y, class := 0.0, ""
			for _, a := range e.Attr {
				switch a.Name.Local {
				case "y":
					fmt.Sscan(a.Value, &y)
				case "class":
					class = a.Value
				}
			}
			switch {
			case e.Name.Local == "polyline":
				lines++
			case class == "name":
				if labels++; y-last < 15.8 {
					t.Errorf("label %d stands %.1f below the one before, want 16", labels, y-last)
				}
				last = y
			}
		}
	}
	if lines != 9 || labels != 9 {
		t.Errorf("%d lines and %d labels for 9 results with points", lines, labels)
	}
	for _, want := range []string{"p8&lt;&amp;&gt; 90.8 %", "a &lt; b", "prefers-color-scheme: dark"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestPlotReturnsWriteError(t *testing.T) {
	if err := PlotAllocation(brokenWriter{}, "", nil); err == nil || err.Error() != "disk full" {
		t.Errorf("got %v, want disk full", err)
	}
}
