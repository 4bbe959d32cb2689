package sim

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// writeTables writes the results of all policies: allocation.csv has the percentage of all GPUs in use by arrival, its
// standard deviation over the seeds and the tasks without a place, and each variant has a plot.
func writeTables(t *testing.T, dir string, variants map[string][]PolicyResult) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(variants))
	if len(names) == 0 {
		t.Fatal("no results to write")
	}
	head := []string{"variant", "policy"}
	for _, arrival := range ArrivalPercents() {
		head = append(head, strconv.Itoa(arrival), strconv.Itoa(arrival)+" sd")
	}
	rows := [][]string{append(head, "without a place")}
	for _, name := range names {
		rows = append(rows, allocationRows(name, variants[name])...)
		var plot bytes.Buffer
		if err := PlotAllocation(&plot, "GPUs in use by arrival: "+name, variants[name]); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name+".svg"), plot.Bytes())
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "allocation.csv"), text.Bytes())
}

// allocationRows returns a row for each policy and one for the bound.
func allocationRows(variant string, results []PolicyResult) (rows [][]string) {
	for i := range results {
		r := &results[i]
		row := []string{variant, r.Policy}
		for _, arrival := range ArrivalPercents() {
			c, _ := r.AllocationAt(arrival)
			row = append(row, fmt.Sprintf("%.2f", c.Mean), fmt.Sprintf("%.2f", c.SD))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.0f", r.Unplaced.Mean)))
	}
	row := []string{variant, "bound"}
	for _, arrival := range ArrivalPercents() {
		c := results[0].Bound[strconv.Itoa(arrival)]
		row = append(row, fmt.Sprintf("%.2f", c.Mean), fmt.Sprintf("%.2f", c.SD))
	}
	return append(rows, append(row, ""))
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestAllocationIsDocumented checks that the table in docs/internals/evidence.md has the values of allocation.csv at
// 100 % arrival.
func TestAllocationIsDocumented(t *testing.T) {
	docs := filepath.Join("..", "..", "docs", "internals")
	f, err := os.Open(filepath.Join(docs, "placement", "allocation.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := slices.Index(rows[0], "100")
	lines, head := map[string]string{}, "| variant |"
	for _, r := range rows[1:] {
		if r[0] == rows[1][0] {
			head += " " + r[1] + " |"
		}
		if lines[r[0]] == "" {
			lines[r[0]] = "| " + r[0] + " |"
		}
		lines[r[0]] += " " + r[column] + " |"
	}
	page, err := os.ReadFile(filepath.Join(docs, "evidence.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 8 {
		t.Errorf("allocation.csv has %d variants, want 8", len(lines))
	}
	for _, line := range append(slices.Sorted(maps.Values(lines)), head) {
		if !strings.Contains(string(page), "\n"+line+"\n") {
			t.Errorf("docs/internals/evidence.md lacks the line\n%s", line)
		}
	}
}
