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
	asTable = "table"
	asWide  = "wide"
	asJSON  = "json"
	asYAML  = "yaml"
)

func formats() []string { return []string{asTable, asWide, asJSON, asYAML} }

// format is the value of -o.
type format struct{ a *app }

func (f format) String() string {
	if f.a == nil || f.a.format == "" {
		return asTable
	}
	return f.a.format
}

func (f format) Set(text string) error {
	if !slices.Contains(formats(), text) {
		return fmt.Errorf("use %s", orList(formats()))
	}
	f.a.format, f.a.json = text, text == asJSON || text == asYAML
	return nil
}

func (format) Type() string { return "format" }

// outputFlag has a command print for people or, with -o, for programs.
func (a *app) outputFlag(c *cobra.Command) {
	f := c.Flags()
	f.VarP(format{a}, "output", "o", "how to print: "+orList(formats())+"; wide cuts nothing and says more")
	f.BoolVar(&a.bare, "no-headers", false, "print tables without their first line")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
}

// orList reads "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// printJSON prints what a program may read: as JSON, or as the YAML that says
// the same.
func (a *app) printJSON(v any) error { return a.writeData(a.out, v) }

func (a *app) writeData(to io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	out := text.Bytes()
	if a.format == asYAML {
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
	plain(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out.Bytes(), nil
}

// plain takes JSON's brackets and quotes away; what needs quotes gets them
// back when it is written. Empty lists and mappings have no other form.
func plain(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		n.Style = 0
	}
	for _, c := range n.Content {
		plain(c)
	}
}

// screen is the terminal that output goes to, or what takes its place.
type screen struct {
	columns, rows int // 0 where it is no terminal
	colour        bool
}

// screen is asked for each time: people change the size of windows.
func (a *app) screen() screen {
	f, ok := a.out.(*os.File)
	if !ok || !terminal(a.out) {
		return screen{}
	}
	s := screen{columns: 80, rows: 24}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
		s.columns, s.rows = int(size.Col), int(size.Row)
	}
	s.colour = a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
	return s
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
