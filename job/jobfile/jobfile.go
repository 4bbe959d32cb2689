// Package jobfile reads job files, YAML or JSON, into job.Spec. It refuses
// what it does not know, with the line and the key that was probably meant;
// it never guesses a value.
package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// MaxSize bounds a job file.
const MaxSize = 1 << 20

// Read parses one job file and completes and checks the job. name, the
// file's, begins every error.
func Read(r io.Reader, name string) (*job.Spec, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%s: more than %d bytes, which no job file needs", name, MaxSize)
	}
	spec, err := parse(text)
	if err != nil {
		return nil, prefixed(name, err)
	}
	spec.SetDefaults()
	if err := spec.Validate(); err != nil {
		return nil, prefixed(name, err)
	}
	return spec, nil
}

// prefixed begins each of several joined errors with the file, and the line
// where it is known.
func prefixed(name string, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []error
		for _, e := range joined.Unwrap() {
			lines = append(lines, prefixed(name, e))
		}
		return errors.Join(lines...)
	}
	if at, ok := err.(*lineError); ok {
		return fmt.Errorf("%s:%d: %w", name, at.line, at.err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// lineError is a complaint about one line of the file.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }

func at(n *yaml.Node, format string, args ...any) error {
	return &lineError{n.Line, fmt.Errorf(format, args...)}
}

func parse(text []byte) (*job.Spec, error) {
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	switch err := documents.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		return nil, errors.New("empty: a job file holds at least name, gpus and command")
	case err != nil:
		return nil, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := documents.Decode(&more); err == nil {
		return nil, at(&more, "a second document begins here: a job file holds one job")
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, at(root, "a job file is a list of keys such as name: and gpus:")
	}
	spec := &job.Spec{}
	all := make(map[string]reader, len(keys))
	for name, set := range keys {
		all[name] = func(n *yaml.Node) error { return set(spec, n) }
	}
	return spec, errors.Join(fields(root, all), oneCount(root))
}
