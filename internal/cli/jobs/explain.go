package jobs

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job/jobfile"
)

func (a *jobCommands) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "explain [KEY]", Short: "Explain the keys of job files", Args: cli.AtMost("KEY"),
		Long: "Explain the keys of job files. A KEY inside of others is written with dots: share.memory, health_check.http.port.",
		RunE: func(_ *cobra.Command, got []string) error {
			if len(got) == 0 {
				keys := jobfile.Keys()
				return a.PrintResult(cli.CommandResult{Data: keysAsData(keys), Print: func(p *term.TablePrinter) error { return printKeys(p, keys) }}, a.NewPrinter())
			}
			key, err := jobfile.ExplainKey(got[0])
			if err != nil {
				return &cli.UsageError{Err: fmt.Errorf("%w: see mesos-gpu explain", err)}
			}
			return a.PrintResult(cli.CommandResult{Data: keysAsData([]jobfile.KeyInfo{key})[0], Print: func(p *term.TablePrinter) error { return printKey(p, key) }},
				a.NewPrinter())
		},
	}
	a.AddOutputFlag(c)
	c.ValidArgsFunction = func(_ *cobra.Command, before []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(before) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeKeys(typed), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// explainedKey is a job file key in machine-readable output.
type explainedKey struct {
	Key     string   `json:"key"`
	What    string   `json:"what"`
	Default string   `json:"default,omitempty"`
	Keys    []string `json:"keys,omitempty"` // keys nested in its value
}

func keysAsData(keys []jobfile.KeyInfo) (list []explainedKey) {
	for _, k := range keys {
		list = append(list, explainedKey{k.Name, k.Doc, k.Default, k.Parts})
	}
	return list
}

// completeKeys returns completions for a partial key: top-level keys, or the keys
// within the part before the last dot.
func completeKeys(typed string) (names []string) {
	dot := strings.LastIndexByte(typed, '.')
	if dot < 0 {
		for _, key := range jobfile.Keys() {
			names = append(names, key.Name)
		}
		return names
	}
	if outer, err := jobfile.ExplainKey(typed[:dot]); err == nil {
		for _, part := range outer.Parts {
			names = append(names, typed[:dot+1]+part)
		}
	}
	return names
}

func printKeys(p *term.TablePrinter, keys []jobfile.KeyInfo) error {
	return term.PrintTable(p.DropFirst("DEFAULT"), keys, []term.TableColumn[jobfile.KeyInfo]{
		{Name: "KEY", Value: func(k jobfile.KeyInfo) string { return k.Name }},
		{Name: "DEFAULT", Value: func(k jobfile.KeyInfo) string { return term.DashIfEmpty(k.Default) }},
		{Name: "WHAT", Value: func(k jobfile.KeyInfo) string { return k.Doc }},
	})
}

func printKey(p *term.TablePrinter, k jobfile.KeyInfo) error {
	lines := []string{k.Name, "", wrapText(k.Doc)}
	if k.Default != "" {
		lines = append(lines, "", wrapText("Left out: "+k.Default))
	}
	if len(k.Parts) > 0 {
		lines = append(lines, "", wrapText("Keys inside, for mesos-gpu explain "+k.Name+".KEY: "+strings.Join(k.Parts, ", ")))
	}
	_, err := fmt.Fprintln(p, strings.Join(lines, "\n"))
	return err
}

// wrapText wraps text and indents each line by two spaces.
func wrapText(text string) string {
	return "  " + strings.Join(term.WrapAt(text, 76), "\n  ")
}
