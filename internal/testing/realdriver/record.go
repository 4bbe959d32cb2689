package realdriver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/internal/atomicfile"
)

// Feature is a column of the table of drivers.
type Feature string

const (
	Volume    Feature = "volume"
	Container Feature = "nvidia-smi in a container"
	NVML      Feature = "NVML"
	Limiter   Feature = "limiter"
	MPS       Feature = "MPS"
)

var features = []Feature{Volume, Container, NVML, Limiter, MPS}

// resultsPath is the page with the table, below the module's root.
const resultsPath = "docs/internals/driver-results.md"

const resultsIntroduction = `# Real drivers

For operators who choose a driver, and for those who change the volume manager, the limiter or MPS: what the tests of ` + "`make test-driver`" + `
found with the user-space files of NVIDIA's real drivers, without a GPU. For example, the volume of driver 550 has 3 libraries and
works. The tests write this table. – means that no test tries it.

`

// Record writes what a test has found about a driver into the table: "works", the exception, or "fails" if the
// test has failed.
func Record(t testing.TB, driver string, feature Feature, exception string, works bool) {
	t.Helper()
	result := exception
	switch {
	case t.Failed():
		result = "fails"
	case works:
		result = strings.TrimSpace("works " + exception)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, resultsPath)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	rows := parseRows(string(text))
	row := rows[driver]
	if row == nil {
		row = map[Feature]string{}
		rows[driver] = row
	}
	row[feature] = result
	if err := atomicfile.Write(path, []byte(formatRows(t, rows)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// parseRows returns the table's cells by driver and feature.
func parseRows(text string) map[string]map[Feature]string {
	rows := map[string]map[Feature]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := strings.TrimSpace(cells[0])
		if len(cells) != len(features)+2 || !slices.ContainsFunc(drivers, func(d Driver) bool { return d.Name == name }) {
			continue
		}
		row := map[Feature]string{}
		for i, f := range features {
			if cell := strings.TrimSpace(cells[i+2]); cell != "–" {
				row[f] = cell
			}
		}
		rows[name] = row
	}
	return rows
}

func formatRows(t testing.TB, rows map[string]map[Feature]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(resultsIntroduction + "| Debian's driver | release |")
	for _, f := range features {
		fmt.Fprintf(&b, " %s |", f)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(features)) + "\n")
	for _, d := range drivers {
		if rows[d.Name] == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", d.Name, Version(t, d.Name))
		for _, f := range features {
			cell := rows[d.Name][f]
			if cell == "" {
				cell = "–"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// moduleRoot returns the folder with go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
	return "", err
}
