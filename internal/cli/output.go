package cli

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

	"mesos-gpu/internal/term"
)

// Ways to print what a command shows, the values of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
)

func outputFormats() []string { return []string{formatTable, formatWide, FormatJSON, FormatYAML} }

// OutputFormat is the value of -o.
type OutputFormat struct{ A *App }

func (f OutputFormat) String() string {
	if f.A == nil || f.A.Format == "" {
		return formatTable
	}
	return f.A.Format
}

func (f OutputFormat) Set(text string) error {
	if !slices.Contains(outputFormats(), text) {
		return fmt.Errorf("use %s", JoinWithOr(outputFormats()))
	}
	f.A.Format, f.A.ForPrograms = text, text == FormatJSON || text == FormatYAML
	return nil
}

func (OutputFormat) Type() string { return "format" }

// AddOutputFlag has a command print for people or, with -o, for programs.
func (a *App) AddOutputFlag(c *cobra.Command) {
	f := c.Flags()
	f.VarP(OutputFormat{a}, "output", "o", "how to print: "+JoinWithOr(outputFormats())+"; wide cuts nothing and says more")
	f.BoolVar(&a.noHeaders, "no-headers", false, "print tables without their first line")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputFormats(), cobra.ShellCompDirectiveNoFileComp))
}

// JoinWithOr reads "a, b or c".
func JoinWithOr(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// PrintJSON prints what a program may read: as JSON, or as the YAML that says
// the same.
func (a *App) PrintJSON(v any) error { return a.writeEncoded(a.Stdout, v) }

func (a *App) writeEncoded(to io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	out := text.Bytes()
	if a.Format == FormatYAML {
		var err error
		if out, err = ToYAML(out); err != nil {
			return err
		}
	}
	_, err := to.Write(out)
	return err
}

// ToYAML keeps the order of the keys. JSON is YAML already, in flow style.
func ToYAML(text []byte) ([]byte, error) {
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

// CurrentScreen is asked for each time: people change the size of windows.
func (a *App) CurrentScreen() term.TerminalScreen {
	f, ok := a.Stdout.(*os.File)
	if !ok || !term.IsTerminal(a.Stdout) {
		return term.TerminalScreen{}
	}
	s := term.TerminalScreen{Columns: 80, Rows: 24}
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 0 {
		s.Columns, s.Rows = int(size.Col), int(size.Row)
	}
	s.UseColor = a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
	return s
}

func (a *App) NewPrinter() *term.TablePrinter {
	return &term.TablePrinter{Writer: a.Stdout, TerminalScreen: a.CurrentScreen(), Wide: a.Format == formatWide, NoHeaders: a.noHeaders}
}

// PrintRows prints a head and n rows, cells separated by tabs, in columns, of which
// those that are spared go first where a terminal is narrow.
func (a *App) PrintRows(head string, n int, row func(i int) string, spared ...string) error {
	rows := make([][]string, n)
	for i := range rows {
		rows[i] = strings.Split(row(i), "\t")
	}
	return a.NewPrinter().DropFirst(spared...).WriteTable(strings.Split(head, "\t"), rows)
}
