package jobfile

import (
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"
)

// valueFormat describes how values of type T appear in a job file: how they are read and written, what JSON Schema
// they have, and which keys and flags they contain. Formats are combined: listOf, optional, orShort and object build
// larger formats from smaller ones.
type valueFormat[T any] struct {
	// read parses n into to. It returns a *lineError, or several joined, for
	// mistakes whose place inside n is known.
	read func(n *yaml.Node, to *T) error
	// write returns what encodeValue encodes. A key whose written value is zero
	// or empty is left out, unless its field says otherwise.
	write func(v T) any
	// schema accepts what read accepts, and more where no schema can express a rule. Functions change clones of it.
	schema valueSchema
	// keys are the keys inside the value.
	keys []keyNode
	// flags are command-line flags that set parts of the value.
	flags []flagOf[T]
}

// keyNode is a key with its explanation and the keys inside its value.
type keyNode struct {
	name string
	// doc is the explanation, and def the effect of an absent key, both in Markdown. def may be empty.
	doc, def string
	keys     []keyNode
}

// keyField is one key of a mapping that is read into an S.
type keyField[S any] struct {
	keyNode
	// required keys must be present.
	required bool
	// written, if set, decides whether the key is written. Otherwise it is written unless its value is zero or empty.
	written func(s *S) bool
	// read sets the field of s to the value, and write returns the value of the field, as those of valueFormat do.
	read  func(s *S, n *yaml.Node) error
	write func(s *S) any
	// reset sets the value of an absent key, before defaults are filled in.
	reset func(s *S)
	// schema and flags describe the value.
	schema valueSchema
	flags  []flagOf[S]
}

// key returns the field of that name, whose value is at(s). The explanation is
// Markdown, with links as in docs/reference/job-file.md.
func key[S, T any](name string, f valueFormat[T], at func(s *S) *T, doc string) keyField[S] {
	k := keyField[S]{
		keyNode: keyNode{name: name, doc: doc, keys: f.keys},
		read:    func(s *S, n *yaml.Node) error { return f.read(n, at(s)) },
		write:   func(s *S) any { return f.write(*at(s)) },
		reset: func(s *S) {
			var absent T
			*at(s) = absent
		},
		schema: f.schema,
	}
	for _, fl := range f.flags {
		k.flags = append(k.flags, flagOf[S]{fl.Flag, func(s *S, texts []string) error { return fl.apply(at(s), texts) }})
	}
	return k
}

// withDefault documents the effect of an absent key.
func (k keyField[S]) withDefault(markdown string) keyField[S] {
	k.def = markdown
	return k
}

// needed makes the key required.
func (k keyField[S]) needed() keyField[S] {
	k.required = true
	return k
}

// writtenIf makes the key written exactly if the condition is true, whether or not its value is zero.
func (k keyField[S]) writtenIf(condition func(s *S) bool) keyField[S] {
	k.written = condition
	return k
}

// alwaysWritten makes the key written even if its value is zero.
func (k keyField[S]) alwaysWritten() keyField[S] { return k.writtenIf(func(*S) bool { return true }) }

// neverWritten is for keys that only abbreviate another one.
func (k keyField[S]) neverWritten() keyField[S] { return k.writtenIf(func(*S) bool { return false }) }

// object is the format of a mapping with these keys and no others.
func object[S any](fields ...keyField[S]) valueFormat[S] {
	f := valueFormat[S]{schema: mappingSchema(fields)}
	for _, k := range fields {
		f.keys = append(f.keys, k.keyNode)
		f.flags = append(f.flags, k.flags...)
	}
	f.read = func(n *yaml.Node, to *S) error { return readFields(n, fieldReaders(fields, to)) }
	f.write = func(v S) any { return encodeFields(fields, &v) }
	return f
}

// fieldReaders returns the readers of all keys, each of which sets its field of to.
func fieldReaders[S any](fields []keyField[S], to *S) map[string]valueReader {
	readers := make(map[string]valueReader, len(fields))
	for _, k := range fields {
		readers[k.name] = func(n *yaml.Node) error { return k.read(to, n) }
	}
	return readers
}

// encodeFields encodes a mapping in the order of the fields.
func encodeFields[S any](fields []keyField[S], s *S) *yamlMapping {
	m := newMapping()
	for _, k := range fields {
		switch {
		case k.written == nil:
			m.addNonZero(k.name, k.write(s))
		case k.written(s):
			m.addKey(k.name, k.write(s))
		}
	}
	return m
}

// mappingSchema describes each key with its explanation.
func mappingSchema[S any](fields []keyField[S]) valueSchema {
	properties := make(map[string]valueSchema, len(fields))
	var required []string
	for _, k := range fields {
		properties[k.name] = k.described()
		if k.required {
			required = append(required, k.name)
		}
	}
	return objectSchema(properties, required...)
}

// described is the schema of the key's value with its explanation.
func (k keyField[S]) described() valueSchema {
	s := maps.Clone(k.schema)
	s["description"] = plainText(k.doc)
	if k.def != "" && !k.required {
		s["description"] = fmt.Sprintf("%s (default: %s)", plainText(k.doc), plainText(k.def))
	}
	return s
}

// checked adds a check of the whole value, which runs if all of its parts were read without a mistake.
func (f valueFormat[T]) checked(check func(n *yaml.Node, v *T) error) valueFormat[T] {
	read := f.read
	f.read = func(n *yaml.Node, to *T) error {
		if err := read(n, to); err != nil {
			return err
		}
		return check(n, to)
	}
	return f
}

// withSchema changes the schema by a keyword.
func (f valueFormat[T]) withSchema(keyword string, value any) valueFormat[T] {
	f.schema = maps.Clone(f.schema)
	f.schema[keyword] = value
	return f
}

// withFlags adds command-line flags that set the value.
func (f valueFormat[T]) withFlags(flags ...flagOf[T]) valueFormat[T] {
	f.flags = append(f.flags[:len(f.flags):len(f.flags)], flags...)
	return f
}

// orShort reads scalars by short and other values by f. It always writes by f.
func (f valueFormat[T]) orShort(short func(n *yaml.Node, to *T) error, schema valueSchema) valueFormat[T] {
	long := f.read
	f.read = func(n *yaml.Node, to *T) error {
		if n.Kind == yaml.ScalarNode {
			return short(n, to)
		}
		return long(n, to)
	}
	f.schema = eitherSchema(schema, f.schema)
	return f
}

// shortText reads a scalar by a function that parses text.
func shortText[T any](parse func(text string) (T, error)) func(n *yaml.Node, to *T) error {
	return func(n *yaml.Node, to *T) (err error) {
		*to, err = parse(n.Value)
		return err
	}
}

// optional is a value that may be absent: nil.
func optional[T any](f valueFormat[T]) valueFormat[*T] {
	p := valueFormat[*T]{schema: f.schema, keys: f.keys}
	p.read = func(n *yaml.Node, to **T) error {
		*to = new(T)
		return f.read(n, *to)
	}
	p.write = func(v *T) any {
		if v == nil {
			return nil
		}
		return f.write(*v)
	}
	for _, fl := range f.flags {
		p.flags = append(p.flags, flagOf[*T]{fl.Flag, func(to **T, texts []string) error {
			if *to == nil {
				*to = new(T)
			}
			return fl.apply(*to, texts)
		}})
	}
	return p
}

// listOf is a list. example is an example of a list, for the error about values that are not lists.
func listOf[T any](example string, item valueFormat[T]) valueFormat[[]T] {
	return valueFormat[[]T]{
		read: func(n *yaml.Node, to *[]T) error {
			return readEach(n, example, func(element *yaml.Node) error {
				var v T
				err := item.read(element, &v)
				*to = append(*to, v)
				return err
			})
		},
		write: func(list []T) any {
			all := make([]any, len(list))
			for i, v := range list {
				all[i] = item.write(v)
			}
			return all
		},
		schema: listSchema(0, item.schema),
		keys:   item.keys,
	}
}
