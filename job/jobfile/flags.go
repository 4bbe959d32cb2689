package jobfile

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// Flag is a command-line flag that sets a part of a job.
type Flag struct {
	// Name is the name after the two dashes. Shorthand is a letter, or empty.
	Name, Shorthand string
	// Kind is the type of the value. In this package empty means TextFlag.
	Kind FlagKind
	// Default is shown as the effect of an absent flag. If it is empty, no default is shown. An absent flag leaves the job
	// as it is: job.Spec.SetDefaults sets the values.
	Default, Usage string
}

// FlagKind is the type of a flag's value, by pflag's name of the type.
type FlagKind string

const (
	TextFlag     FlagKind = "string"
	IntFlag      FlagKind = "int"
	FloatFlag    FlagKind = "float64"
	BoolFlag     FlagKind = "bool"
	DurationFlag FlagKind = "duration"
	// ListFlag may be repeated, and each value may contain several texts separated by commas. RepeatedFlag may be
	// repeated and has one text each time.
	ListFlag     FlagKind = "stringSlice"
	RepeatedFlag FlagKind = "stringArray"
)

// flagOf is a flag that changes a T.
type flagOf[T any] struct {
	Flag
	// apply gets all values of the flag, at least one.
	apply func(to *T, texts []string) error
}

// withFlag adds a flag whose value is read as the key's value is. If the flag is repeated, the last value counts.
func (k keyField[S]) withFlag(f Flag) keyField[S] {
	read := k.read
	k.flags = append(k.flags[:len(k.flags):len(k.flags)], flagOf[S]{f, func(s *S, texts []string) error { return read(s, scalarNode(texts[len(texts)-1])) }})
	return k
}

// flagReadBy reads the last value by a separate function, for flags that accept more than their key.
func flagReadBy[T any](f Flag, read func(n *yaml.Node, to *T) error) flagOf[T] {
	return flagOf[T]{f, func(to *T, texts []string) error { return read(scalarNode(texts[len(texts)-1]), to) }}
}

// scalarNode returns text as a value of a file, so that flags and keys have the same readers. It has no place in a file.
func scalarNode(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// appendFlag adds what parse returns for each text to a list.
func appendFlag[T any](f Flag, parse func(text string) (T, error)) flagOf[[]T] {
	return flagOf[[]T]{f, func(to *[]T, texts []string) error {
		for _, text := range texts {
			v, err := parse(text)
			if err != nil {
				return err
			}
			*to = append(*to, v)
		}
		return nil
	}}
}

// wordsFlag adds the texts to a list of words.
func wordsFlag(f Flag) flagOf[[]string] {
	return appendFlag(f, func(text string) (string, error) { return text, nil })
}

// assignmentsFlag reads NAME=value pairs. The advice ends the error for others.
func assignmentsFlag(f Flag, advice string) flagOf[map[string]string] {
	return flagOf[map[string]string]{f, func(to *map[string]string, texts []string) error {
		all := make(map[string]string, len(texts))
		for _, text := range texts {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" {
				return fmt.Errorf("%q: write NAME=value%s", text, advice)
			}
			all[name] = value
		}
		*to = all
		return nil
	}}
}

// choiceFlag takes one of two words, the second of which is the default and
// changes nothing.
func choiceFlag[T any](f Flag, word string, choose func(to *T), advice string) flagOf[T] {
	return flagOf[T]{f, func(to *T, texts []string) error {
		switch text := texts[len(texts)-1]; text {
		case word:
			choose(to)
		case f.Default:
		default:
			return fmt.Errorf("%q is neither %s nor %s%s", text, word, f.Default, advice)
		}
		return nil
	}}
}

// Flags lists the flags of all keys, in the order of the keys.
func Flags() []Flag { return listFlags(jobFormat().flags) }

// listFlags returns the flags without what they do.
func listFlags(flags []flagOf[job.Spec]) []Flag {
	var all []Flag
	for _, f := range flags {
		f.Kind = cmp.Or(f.Kind, TextFlag)
		all = append(all, f.Flag)
	}
	return all
}

// ApplyFlags changes the job by the texts that each flag was given. It returns
// all mistakes joined, each after the name of its flag.
func ApplyFlags(spec *job.Spec, given map[string][]string) error {
	var errs []error
	for _, f := range jobFormat().flags {
		if texts := given[f.Name]; len(texts) > 0 {
			if err := f.apply(spec, texts); err != nil {
				errs = append(errs, fmt.Errorf("--%s: %w", f.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}
