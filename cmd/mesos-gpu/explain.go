package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/job/jobfile"
)

func (a *app) explainCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "explain [KEY]", Short: "Explain a job file's keys, or one of them", Args: atMost("KEY"),
		RunE: func(_ *cobra.Command, got []string) error {
			if len(got) == 0 {
				return explainAll(a.printer(), jobfile.Keys())
			}
			key, err := jobfile.Explain(got[0])
			if err != nil {
				return &usageError{fmt.Errorf("%w: see mesos-gpu explain", err)}
			}
			return explainOne(a.printer(), key)
		},
	}
	var names []string
	for _, key := range jobfile.Keys() {
		names = append(names, key.Name)
	}
	c.ValidArgsFunction = cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)
	return c
}

func explainAll(p *printer, keys []jobfile.Key) error {
	return tableOf(p, keys, []column[jobfile.Key]{
		{"KEY", func(k jobfile.Key) string { return k.Name }},
		{"DEFAULT", func(k jobfile.Key) string { return orDash(k.Default) }},
		{"WHAT", func(k jobfile.Key) string { return k.Doc }},
	})
}

func explainOne(p *printer, k jobfile.Key) error {
	lines := []string{k.Name, "", wrapped(k.Doc, 78)}
	if k.Default != "" {
		lines = append(lines, "", wrapped("Left out: "+k.Default, 78))
	}
	if len(k.Parts) > 0 {
		lines = append(lines, "", wrapped("Keys inside: "+strings.Join(k.Parts, ", "), 78))
	}
	_, err := fmt.Fprintln(p, strings.Join(lines, "\n"))
	return err
}

// wrapped breaks text into lines of at most so many bytes, as far as its words
// let it, each set off by two blanks.
func wrapped(text string, width int) string {
	var lines []string
	line := " "
	for _, word := range strings.Fields(text) {
		if line != " " && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = " "
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n")
}
