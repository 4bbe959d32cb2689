package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docsTableRow is one row of a table in docs/reference/executor.md.
type docsTableRow struct {
	labels map[string]string
	env    []string
	cells  []string // the other columns
}

var (
	quoted    = regexp.MustCompile("`([^`]*)`")
	separator = regexp.MustCompile(`^\|[-|]+\|$`)
)

// docsTables returns the rows below each heading of the page and of the further cases, of
// the tables whose first column is an image.
func docsTables(t *testing.T) map[string][]docsTableRow {
	t.Helper()
	rows := map[string][]docsTableRow{}
	for _, file := range []string{filepath.Join("..", "..", "docs", "reference", "executor.md"), filepath.Join("testdata", "requirements.md")} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		heading, images, body := "", false, false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.HasPrefix(line, "## "):
				heading, images, body = line[3:], false, false
			case !strings.HasPrefix(line, "|"):
				images, body = false, false
			case strings.HasPrefix(line, "| image |"):
				images = true
			case separator.MatchString(line):
				body = images
			case body:
				rows[heading] = append(rows[heading], readRow(t, line))
			}
		}
	}
	return rows
}

func readRow(t *testing.T, line string) docsTableRow {
	t.Helper()
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
	r := docsTableRow{labels: map[string]string{}, cells: cells[1:]}
	said := quoted.FindAllStringSubmatch(cells[0], -1)
	if len(said) == 0 && cells[0] != "(nothing)" {
		t.Fatalf("row %q says nothing about an image", line)
	}
	for _, m := range said {
		name, value, ok := strings.Cut(m[1], "=")
		switch {
		case !ok:
			t.Fatalf("row %q: %q is no NAME=value", line, m[1])
		case strings.HasPrefix(name, "com."):
			r.labels[name] = value
		default:
			r.env = append(r.env, m[1])
		}
	}
	return r
}

// hostOf parses "driver 535.104.05, CUDA 12.2, arch 9.0, arch 7.0".
func hostOf(t *testing.T, text string) HostDriver {
	t.Helper()
	var h HostDriver
	for fact := range strings.SplitSeq(text, ", ") {
		name, value, _ := strings.Cut(fact, " ")
		g := HostGPU{Name: fmt.Sprintf("GPU-%d", len(h.GPUs))}
		switch name {
		case "driver":
			h.Driver = value
		case "CUDA":
			h.CUDA = value
		case "arch":
			g.Arch = value
			h.GPUs = append(h.GPUs, g)
		case "brand":
			g.Brand = value
			h.GPUs = append(h.GPUs, g)
		default:
			t.Fatalf("agent %q: what is %q?", text, fact)
		}
	}
	return h
}

func outcomeOf(err error) string {
	var unfit *IncompatibleError
	switch {
	case err == nil:
		return "starts"
	case errors.As(err, &unfit):
		return fmt.Sprintf("unfit by %s: wants %s (%s), has %s", unfit.Cause, unfit.Required, unfit.RequiredBy, unfit.Found)
	default:
		return err.Error()
	}
}

// Each row of the document matches the code.
func TestDocumentedRows(t *testing.T) {
	yes := map[bool]string{true: "yes", false: "no"}
	checks := map[string]struct {
		least int // minimum number of rows, to detect a table that is no longer parsed
		got   func(t *testing.T, r docsTableRow) []string
	}{
		"Driver files": {20, func(t *testing.T, r docsTableRow) []string {
			ask, err := readAsk(r.labels, r.env)
			if err != nil {
				t.Fatal(err)
			}
			if needsDriver(r.labels, r.env) != ask.NeedsDriver() {
				t.Errorf("NeedsDriver and Read differ")
			}
			return []string{"`" + ask.Devices.String() + "`", yes[ask.NeedsDriver()]}
		}},
		"Driver capabilities": {9, func(_ *testing.T, r docsTableRow) []string {
			ask, err := readAsk(r.labels, r.env)
			switch {
			case err != nil:
				return []string{err.Error()}
			case len(ask.Capabilities) == 0:
				return []string{"(none)"}
			default:
				return []string{"`" + ask.Capabilities.String() + "`"}
			}
		}},
		"Requirements": {35, func(t *testing.T, r docsTableRow) []string {
			_, err := Examine(r.labels, r.env, nil, hostOf(t, r.cells[0]))
			return []string{r.cells[0], outcomeOf(err)}
		}},
	}
	all := docsTables(t)
	for heading, rows := range all {
		if _, ok := checks[heading]; !ok {
			t.Errorf("no test for the %d rows below %q", len(rows), heading)
		}
	}
	for heading, check := range checks {
		if n := len(all[heading]); n < check.least {
			t.Errorf("found %d rows below %q, want at least %d", n, heading, check.least)
		}
		for _, r := range all[heading] {
			t.Run(fmt.Sprint(heading, "/", r.labels, r.env, r.cells), func(t *testing.T) {
				if got, want := strings.Join(check.got(t, r), " | "), strings.Join(r.cells, " | "); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		}
	}
}

// The error message for users is the one in the document.
func TestDocumentedMessage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "executor.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, unfit := Examine(nil, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}, nil, HostDriver{Driver: "535.104.05", CUDA: "12.2"})
	if unfit == nil || !strings.Contains(string(text), "\n> "+unfit.Error()+"\n") {
		t.Errorf("the document does not quote: %v", unfit)
	}
}
