package sim

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// writeTables writes the results of all policies: allocation.md has the tables, and each variant has a plot.
func writeTables(t *testing.T, dir string, variants map[string][]PolicyResult) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(variants))
	if len(names) == 0 {
		t.Fatal("no results to write")
	}
	seeds := variants[names[0]][0].Seeds
	var text bytes.Buffer
	fmt.Fprintf(&text, "# GPUs in use by policy and arrival\n\nPercent of all GPUs, mean and standard deviation of the seeds %d to %d, by how many percent of them were asked for; `make sim` writes this file.\n"+
		"[Simulate](../../guides/simulate.md#placement-without-a-clock) explains each column and the bound.\n", seeds[0], seeds[len(seeds)-1])
	for _, name := range names {
		fmt.Fprintf(&text, "\n## %s\n\n![GPUs in use by arrival, %s](%s.svg)\n\n", name, name, name)
		tableOf(&text, variants[name])
		var plot bytes.Buffer
		if err := PlotAllocation(&plot, "GPUs in use by arrival: "+name, variants[name]); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name+".svg"), plot.Bytes())
	}
	put(t, filepath.Join(dir, "allocation.md"), text.Bytes())
}

func tableOf(text *bytes.Buffer, results []PolicyResult) {
	text.WriteString("| policy |")
	for _, arrival := range ArrivalPercents() {
		fmt.Fprintf(text, " %d |", arrival)
	}
	text.WriteString(" without a place |\n|---|" + string(bytes.Repeat([]byte("---|"), len(ArrivalPercents())+1)) + "\n")
	for i := range results {
		r := &results[i]
		fmt.Fprintf(text, "| %s |", r.Policy)
		for _, arrival := range ArrivalPercents() {
			c, _ := r.AllocationAt(arrival)
			fmt.Fprintf(text, " %.2f (%.2f) |", c.Mean, c.SD)
		}
		fmt.Fprintf(text, " %.0f |\n", r.Unplaced.Mean)
	}
	text.WriteString("| *bound* |")
	for _, arrival := range ArrivalPercents() {
		c := results[0].Bound[strconv.Itoa(arrival)]
		fmt.Fprintf(text, " %.2f (%.2f) |", c.Mean, c.SD)
	}
	text.WriteString(" |\n")
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
