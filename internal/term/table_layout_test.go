package term

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// East Asian characters take two columns, combining marks none.
func TestWideCharactersAreAligned(t *testing.T) {
	rows := [][]string{{"学習ジョブ", "running"}, {"e\u0301tude", "staging"}}
	for _, c := range []struct {
		columns int
		want    string
	}{
		{0, "JOB         NOTE\n学習ジョブ  running\ne\u0301tude       staging\n"},
		{14, "JOB     NOTE\n学…ブ   runni…\ne\u0301tude   stagi…\n"},
	} {
		var out bytes.Buffer
		p := &TablePrinter{Writer: &out, TerminalScreen: TerminalScreen{Columns: c.columns}}
		if err := p.WriteTable([]string{"JOB", "NOTE"}, rows); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%d columns: got\n%swant\n%s", c.columns, &out, c.want)
		}
	}
}

func TestTextIsWrappedAtSpaces(t *testing.T) {
	for text, want := range map[string][]string{
		"one two three":      {"one", "two", "three"},
		"a b c d":            {"a b c", "d"},
		"":                   nil,
		"incomprehensible a": {"incomp", "rehens", "ible a"},
		"学習 ジョブ名":            {"学習", "ジョブ", "名"},
	} {
		if got := WrapAt(text, 6); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// For any header, cells and width each row fits on a line, in the order of its columns, and is
// complete if there is enough space.
func TestGeneratedTablesFitTerminal(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var head []string
		for i := range 1 + random.IntN(12) {
			head = append(head, []string{fmt.Sprintf("C%d", i), "NOTE", "STATE", "WAITS"}[random.IntN(4)])
		}
		rows := make([][]string, random.IntN(5))
		for r := range rows {
			for range head {
				rows[r] = append(rows[r], strings.Repeat("ä", random.IntN(60)))
			}
		}
		spared := slices.Clone(head[:random.IntN(len(head)+1)])
		columns := 40 + random.IntN(160)
		var out bytes.Buffer
		if err := (&TablePrinter{Writer: &out, TerminalScreen: TerminalScreen{Columns: columns}}).DropFirst(spared...).WriteTable(head, rows); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != len(rows)+1 {
			t.Fatalf("%d rows are %d lines:\n%s", len(rows), len(lines), &out)
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > columns || strings.HasSuffix(line, " ") {
				t.Fatalf("%d columns, %v, spared %v:\n%s", columns, head, spared, &out)
			}
		}
	}
}

// describe wraps texts only on a terminal, and aligns wrapped lines.
func TestFactsAreWrapped(t *testing.T) {
	var out bytes.Buffer
	all := []LabeledFact{{Name: "job", Text: "train"}, {Name: "waits", Text: strings.Repeat("word ", 12)}, {Name: "command", Text: strings.Repeat("x", 70)}}
	(&TablePrinter{Writer: &out, TerminalScreen: TerminalScreen{Columns: 50}}).PrintFacts(all)
	indent := "\n            "
	want := "job         train\nwaits       word word word word word word word" + indent +
		"word word word word word\ncommand     " + strings.Repeat("x", 38) + indent + strings.Repeat("x", 32) + "\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	out.Reset()
	(&TablePrinter{Writer: &out}).PrintFacts(all)
	if strings.Count(out.String(), "\n") != 3 {
		t.Errorf("no terminal: %q", &out)
	}
}

// Tables fit a terminal: droppable columns are dropped first, then sentences are truncated at
// their ends and names in the middle. With -o wide or without a terminal they are complete.
func TestTablesFit(t *testing.T) {
	head := []string{"TASK", "STATE", "GPUS", "MESSAGE"}
	rows := func() [][]string {
		return [][]string{
			{"a-task-with-a-rather-long-name.0.1", "RUNNING", strings.Repeat("GPU-0123456789,", 4), "mü " + strings.Repeat("x", 60)},
			{"b", "FAILED", "-", "short\tand\nbad\x1b[31m"},
		}
	}
	whole := strings.Repeat("GPU-0123456789,", 4) + "  mü " + strings.Repeat("x", 60) + "\n"
	for _, test := range []struct {
		columns, want int
		wide          bool
		has           string
	}{
		{0, 170, false, whole}, {72, 170, true, whole}, {300, 170, false, whole},
		{140, 140, false, "GPU-0123456789,  mü xxx"},
		{80, 80, false, "a-task-with-a-rather-long-name.0.1  RUNNING  mü " + strings.Repeat("x", 31) + "…\n"},
		{60, 60, false, "a-task-wi…-name.0.1  RUNNING  mü " + strings.Repeat("x", 26) + "…\n"},
		{40, 40, false, "RUNNING  mü x"},
	} {
		var out bytes.Buffer
		p := (&TablePrinter{Writer: &out, TerminalScreen: TerminalScreen{Columns: test.columns}, Wide: test.wide}).DropFirst("GPUS")
		if err := p.WriteTable(head, rows()); err != nil {
			t.Fatal(err)
		}
		longest := 0
		for line := range strings.Lines(out.String()) {
			longest = max(longest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		if longest != test.want || !strings.Contains(out.String(), test.has) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%+v: the longest line has %d characters:\n%s", test, longest, &out)
		}
	}
}

// Only states have colors.
func TestStateColors(t *testing.T) {
	var out bytes.Buffer
	p := &TablePrinter{Writer: &out, TerminalScreen: TerminalScreen{Columns: 80, UseColor: true}}
	if err := p.WriteTable([]string{"JOB", "STATE", "TASKS"}, [][]string{
		{"RUNNING", "RUNNING", "1"},
		{"b", "FAILED", "2"},
		{"c", "WAITING", "3"},
		{"d", "FINISHED", "4"},
	}); err != nil {
		t.Fatal(err)
	}
	if want := "JOB      STATE     TASKS\nRUNNING  \x1b[32mRUNNING\x1b[0m   1\nb        \x1b[31mFAILED\x1b[0m    2\nc        " +
		"\x1b[33mWAITING\x1b[0m   3\nd        FINISHED  4\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}
