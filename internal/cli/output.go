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
	xterm "golang.org/x/term"

	"mesos-gpu/internal/term"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// Output formats, the values of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
)

func outputFormats() []string { return []string{formatTable, formatWide, FormatJSON, FormatYAML} }

// OutputFormat is the flag value of -o.
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

// AddOutputFlag adds the flag -o, which selects tables or machine-readable output.
func (a *App) AddOutputFlag(c *cobra.Command) {
	f := c.Flags()
	f.VarP(OutputFormat{a}, "output", "o", "output format: "+JoinWithOr(outputFormats())+"; wide adds columns and does not shorten values")
	f.BoolVar(&a.noHeaders, "no-headers", false, "print tables without the header")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputFormats(), cobra.ShellCompDirectiveNoFileComp))
}

// JoinWithOr formats a list as "a, b or c".
func JoinWithOr(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// PrintJSON writes v to standard output as JSON, or as the equivalent YAML with
// -o yaml.
func (a *App) PrintJSON(v any) error { return a.writeEncoded(a.Stdout, v) }

// PrintJSONLine writes v to standard output as one line of JSON.
func (a *App) PrintJSONLine(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	_, err = a.Stdout.Write(append(term.EscapeJSON(text), '\n'))
	return err
}

func (a *App) writeEncoded(to io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode output: %w", err)
	}
	out := term.EscapeJSON(text.Bytes()) // YAML allows no control characters
	if a.Format == FormatYAML {
		var err error
		if out, err = toYAML(out); err != nil {
			return err
		}
		out = term.EscapeJSON(out)
	}
	_, err := to.Write(out)
	return err
}

// EncodeJobFile returns a job file in YAML. Characters that affect a terminal are escape sequences in double quotes, which have the
// same meaning.
func EncodeJobFile(spec *job.Spec) ([]byte, error) {
	var text bytes.Buffer
	if err := jobfile.Write(&text, spec); err != nil {
		return nil, err
	}
	if !term.HasControls(text.String()) {
		return text.Bytes(), nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text.Bytes(), &doc); err != nil {
		return nil, fmt.Errorf("read job file of %s: %w", spec.Name, err)
	}
	quoteControls(&doc)
	out, err := jobfile.EncodeYAML(&doc)
	return term.EscapeJSON(out), err
}

// WriteJobFile writes a job file in YAML to standard output.
func (a *App) WriteJobFile(spec *job.Spec) error {
	text, err := EncodeJobFile(spec)
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(text)
	return err
}

// quoteControls gives double quotes to the values with characters that affect a terminal: only this style has escape sequences, the
// same as JSON's.
func quoteControls(n *yaml.Node) {
	if term.HasControls(n.Value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		quoteControls(c)
	}
}

// toYAML converts JSON to block-style YAML and keeps the order of the keys. It parses
// the JSON as YAML, because JSON is valid flow-style YAML.
func toYAML(text []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("turn JSON into YAML: %w", err)
	}
	clearStyles(&doc)
	quoteControls(&doc)
	out, err := jobfile.EncodeYAML(&doc)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out, nil
}

// clearStyles removes flow style and quotes from n and its children. The encoder
// restores quotes where they are required. Empty lists and mappings keep their style,
// because YAML has no block form of them.
func clearStyles(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode || len(n.Content) > 0 {
		n.Style = 0
	}
	for _, c := range n.Content {
		clearStyles(c)
	}
}

// CurrentScreen returns the present size and color support of standard output. It
// returns the zero value if that is not a terminal. The size changes when the user
// resizes the window.
func (a *App) CurrentScreen() term.TerminalScreen {
	f, ok := a.Stdout.(*os.File)
	if !ok || !term.IsTerminal(a.Stdout) {
		return term.TerminalScreen{}
	}
	s := term.TerminalScreen{Columns: 80, Rows: 24}
	if columns, rows, err := xterm.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
		s.Columns, s.Rows = columns, rows
	}
	s.UseColor = a.UsesColor(a.Stdout)
	return s
}

// UsesColor reports whether text for w may contain colors: w is a terminal, and the user
// has not disabled them.
func (a *App) UsesColor(w io.Writer) bool {
	return term.IsTerminal(w) && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb"
}

func (a *App) NewPrinter() *term.TablePrinter {
	return &term.TablePrinter{Writer: a.Stdout, TerminalScreen: a.CurrentScreen(), Wide: a.Format == formatWide, NoHeaders: a.noHeaders}
}

// PrintRows prints a header and n rows as a table. Cells are separated by tabs.
// On a narrow terminal the spared columns are dropped first.
func (a *App) PrintRows(head string, n int, row func(i int) string, spared ...string) error {
	rows := make([][]string, n)
	for i := range rows {
		rows[i] = strings.Split(row(i), "\t")
	}
	return a.NewPrinter().DropFirst(spared...).WriteTable(strings.Split(head, "\t"), rows)
}
