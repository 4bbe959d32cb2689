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
		Long: "Explain a job file's keys, or one of them. With dots a KEY is inside of others: share.memory, health_check.http.port.",
		RunE: func(_ *cobra.Command, got []string) error {
			if len(got) == 0 {
				keys := jobfile.Keys()
				return a.print(shown{keysAsData(keys), func(p *printer) error { return explainAll(p, keys) }}, a.printer())
			}
			key, err := explained(got[0])
			if err != nil {
				return &usageError{fmt.Errorf("%w: see mesos-gpu explain", err)}
			}
			return a.print(shown{keysAsData([]jobfile.Key{key})[0], func(p *printer) error { return explainOne(p, key) }}, a.printer())
		},
	}
	a.outputFlag(c)
	c.ValidArgsFunction = func(_ *cobra.Command, before []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(before) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return keysFor(typed), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// keyData is a key for programs.
type keyData struct {
	Key     string   `json:"key"`
	What    string   `json:"what"`
	Default string   `json:"default,omitempty"`
	Keys    []string `json:"keys,omitempty"` // those inside of its value
}

func keysAsData(keys []jobfile.Key) (list []keyData) {
	for _, k := range keys {
		list = append(list, keyData{k.Name, k.Doc, k.Default, k.Parts})
	}
	return list
}

// explained finds a key by its name, or by its path with those it is inside of.
func explained(path string) (jobfile.Key, error) {
	outer, _, inside := strings.Cut(path, ".")
	key, err := jobfile.Explain(outer)
	if err != nil || !inside {
		return key, err
	}
	return explainPart(path)
}

// keysFor are the keys that somebody may be typing: the outer ones, or those
// inside of what stands before the last dot.
func keysFor(typed string) (names []string) {
	dot := strings.LastIndexByte(typed, '.')
	if dot < 0 {
		for _, key := range jobfile.Keys() {
			names = append(names, key.Name)
		}
		return names
	}
	if outer, err := explained(typed[:dot]); err == nil {
		for _, part := range outer.Parts {
			names = append(names, typed[:dot+1]+part)
		}
	}
	return names
}

func explainAll(p *printer, keys []jobfile.Key) error {
	return tableOf(p.spare("DEFAULT"), keys, []column[jobfile.Key]{
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
		lines = append(lines, "", wrapped("Keys inside, for mesos-gpu explain "+k.Name+".KEY: "+strings.Join(k.Parts, ", "), 78))
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
