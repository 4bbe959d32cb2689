package jobfile

import (
	"maps"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// The formats of single values, and of values with keys that users choose.

// text is a word of type T.
func text[T ~string](schema valueSchema) valueFormat[T] {
	return valueFormat[T]{
		read: func(n *yaml.Node, to *T) error {
			var word string
			err := readText(n, &word)
			*to = T(word)
			return err
		},
		write:  func(v T) any { return string(v) },
		schema: schema,
	}
}

// word is text that is not empty. It matches the pattern, unless that is empty.
func word(pattern string) valueFormat[string] { return text[string](wordSchema(pattern)) }

// oneOf is one of the given words. Validate rejects others.
func oneOf[T ~string](words ...T) valueFormat[T] { return text[T](enumSchema(words...)) }

// anyWord may be empty.
func anyWord() valueFormat[string] {
	return valueFormat[string]{readAnyText, func(v string) any { return v }, anyWordSchema(), nil, nil}
}

// wordList is a word or a list of words.
func wordList() valueFormat[[]string] {
	return valueFormat[[]string]{readWords, func(v []string) any { return v }, wordsSchema(), nil, nil}
}

// pairs are NAME: value pairs. The schema describes one value.
func pairs(schema valueSchema) valueFormat[map[string]string] {
	return valueFormat[map[string]string]{readPairs, func(v map[string]string) any { return v }, mapSchema(schema), nil, nil}
}

// boolean is true or false. The value false is not written, as is any other zero value.
func boolean() valueFormat[bool] {
	return valueFormat[bool]{readFlag, func(v bool) any { return v }, flagSchema(), nil, nil}
}

// count is a whole number. Only the schema has the limits: job.Spec.Validate checks most numbers, and others have a reader
// of their own.
func count(least, most int) valueFormat[int] {
	return valueFormat[int]{readCount, func(v int) any { return v }, integerSchema(least, most), nil, nil}
}

// positiveCount rejects 0, which means an absent key.
func positiveCount(most int) valueFormat[int] {
	f := count(1, most)
	f.read = readPositive
	return f
}

// portNumber is a number from 1 to 65535. The zero value means an absent key.
func portNumber() valueFormat[int] {
	f := count(1, 65535)
	f.read = readPortNumber
	return f
}

// number is above 0 and may have a fraction.
func number() valueFormat[float64] {
	return valueFormat[float64]{readNumber, func(v float64) any { return v }, numberSchema(), nil, nil}
}

// size is an amount of memory or disk in MiB.
func size() valueFormat[float64] {
	return valueFormat[float64]{readSize, func(v float64) any { return formatSize(v) }, sizeSchema(), nil, nil}
}

// wholeSize is a size rounded up to a MiB.
func wholeSize() valueFormat[int64] {
	return valueFormat[int64]{readWholeSize, func(v int64) any { return formatSize(float64(v)) }, sizeSchema(), nil, nil}
}

// duration returns the format of values that ParseDuration accepts. The zero value is not written.
func duration() valueFormat[time.Duration] {
	return valueFormat[time.Duration]{readDuration, func(v time.Duration) any { return v }, durationSchema(), nil, nil}
}

// positiveDuration rejects 0, which means an absent key.
func positiveDuration() valueFormat[time.Duration] {
	f := duration()
	f.read = readPositiveDuration
	return f
}

// commandLine is an argument vector, or one line for /bin/sh.
func commandLine() valueFormat[[]string] {
	return valueFormat[[]string]{readCommand, encodeCommand, commandSchema(), nil, nil}
}

// orUnlimited also takes the word unlimited, for job.Unlimited.
func orUnlimited(f valueFormat[float64]) valueFormat[float64] {
	read, write := f.read, f.write
	return valueFormat[float64]{
		read: func(n *yaml.Node, to *float64) error { return readLimit(n, to, read) },
		write: func(v float64) any {
			if v == job.Unlimited {
				return job.UnlimitedText
			}
			return write(v)
		},
		schema: eitherSchema(enumSchema(job.UnlimitedText), f.schema),
	}
}

// selector reads a word or a list of words as what to include, or a mapping
// with include and exclude.
func selector[S any](include, exclude keyField[S]) valueFormat[S] {
	f := object(include, exclude)
	long := f.write
	f.write = func(v S) any {
		if m, ok := long(v).(*yamlMapping); ok && m.has("exclude") {
			return m
		}
		return include.write(&v)
	}
	read := f.read
	f.read = func(n *yaml.Node, to *S) error {
		if n.Kind != yaml.MappingNode {
			return include.read(to, n)
		}
		return read(n, to)
	}
	f.schema = eitherSchema(wordsSchema(), f.schema)
	return f
}

// matrix maps names that the user chooses to lists of values. include and exclude
// have their own meaning.
func matrix() valueFormat[*job.Matrix] {
	return valueFormat[*job.Matrix]{
		read:   readMatrix,
		write:  encodeMatrix,
		schema: matrixSchema(),
		keys: []keyNode{
			{name: "include", doc: "values added to the combinations that agree with the entry on every axis, or else a further combination: `[{lr: 0.001, seed: 7}]`"},
			{name: "exclude", doc: "combinations to leave out, those that have every value of an entry: `[{lr: 0.1, seed: 3}]`"},
		},
	}
}

// encodeMatrix writes the axes in their order, which determines the order of the tasks.
func encodeMatrix(x *job.Matrix) any {
	if x == nil {
		return nil
	}
	m := newMapping()
	for _, a := range x.Axes {
		m.addNonZero(a.Name, a.Values)
	}
	m.addNonZero("include", encodeEntries(x.Include))
	m.addNonZero("exclude", encodeEntries(x.Exclude))
	return m
}

// encodeEntries writes entries of include or exclude, each with its names sorted.
func encodeEntries(entries []map[string]string) []any {
	var all []any
	for _, e := range entries {
		m := newMapping()
		for _, name := range slices.Sorted(maps.Keys(e)) {
			m.addKey(name, e[name])
		}
		all = append(all, m)
	}
	return all
}

// constraintList reads Marathon's lists of two or three words, or such words in
// one line.
func constraintList() valueFormat[[]job.Constraint] {
	return valueFormat[[]job.Constraint]{read: readConstraints, schema: constraintsSchema(), write: func(list []job.Constraint) any {
		all := make([]any, len(list))
		for i, c := range list {
			words := []string{c.Field, string(c.Operator)}
			if c.Value != "" {
				words = append(words, c.Value)
			}
			all[i] = words
		}
		return all
	}}
}

// encodeCommand returns a line for the shell as text, anything else as a list.
func encodeCommand(argv []string) any {
	if len(argv) == 3 && slices.Equal(argv[:2], shellCommand("")[:2]) && argv[2] != "" {
		return argv[2]
	}
	return argv
}
