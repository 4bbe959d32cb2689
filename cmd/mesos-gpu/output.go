package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// Ways to print what a command shows, the values of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

func outputFormats() []string { return []string{formatTable, formatWide, formatJSON, formatYAML} }

// outputFormat is the value of -o.
type outputFormat struct{ a *cliApp }

func (f outputFormat) String() string {
	if f.a == nil || f.a.format == "" {
		return formatTable
	}
	return f.a.format
}

func (f outputFormat) Set(text string) error {
	if !slices.Contains(outputFormats(), text) {
		return fmt.Errorf("use %s", joinWithOr(outputFormats()))
	}
	f.a.format, f.a.forPrograms = text, text == formatJSON || text == formatYAML
	return nil
}

func (outputFormat) Type() string { return "format" }

// addOutputFlag has a command print for people or, with -o, for programs.
func (a *cliApp) addOutputFlag(c *cobra.Command) {
	f := c.Flags()
	f.VarP(outputFormat{a}, "output", "o", "how to print: "+joinWithOr(outputFormats())+"; wide cuts nothing and says more")
	f.BoolVar(&a.noHeaders, "no-headers", false, "print tables without their first line")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputFormats(), cobra.ShellCompDirectiveNoFileComp))
}

// joinWithOr reads "a, b or c".
func joinWithOr(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// printJSON prints what a program may read: as JSON, or as the YAML that says
// the same.
func (a *cliApp) printJSON(v any) error { return a.writeEncoded(a.stdout, v) }

func (a *cliApp) writeEncoded(to io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	out := text.Bytes()
	if a.format == formatYAML {
		var err error
		if out, err = toYAML(out); err != nil {
			return err
		}
	}
	_, err := to.Write(out)
	return err
}

// toYAML keeps the order of the keys. JSON is YAML already, in flow style.
func toYAML(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("turn JSON into YAML: %w", err)
	}
	clearStyles(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out.Bytes(), nil
}

// clearStyles takes JSON's brackets and quotes away; what needs quotes gets them
// back when it is written. Empty lists and mappings have no other form.
func clearStyles(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		n.Style = 0
	}
	for _, c := range n.Content {
		clearStyles(c)
	}
}

// terminalScreen is the terminal that output goes to, or what takes its place.
type terminalScreen struct {
	columns, rows int // 0 where it is no terminal
	useColor      bool
}

// currentScreen is asked for each time: people change the size of windows.
func (a *cliApp) currentScreen() terminalScreen {
	f, ok := a.stdout.(*os.File)
	if !ok || !isTerminal(a.stdout) {
		return terminalScreen{}
	}
	s := terminalScreen{columns: 80, rows: 24}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
		s.columns, s.rows = int(size.Col), int(size.Row)
	}
	s.useColor = a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
	return s
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
