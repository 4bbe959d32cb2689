// Package jobfile reads job files, YAML or JSON, into job.Spec. It refuses
// what it does not know, with the line and the key that was probably meant;
// it never guesses a value.
package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// MaxSize bounds a job file.
const MaxSize = 1 << 20

// Read parses one job file and completes and checks the job. It tells all that
// is wrong at once; each mistake begins with the file's name, and the line and
// column where it has some.
func Read(r io.Reader, name string) (*job.Spec, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%s: more than %d bytes, which no job file needs", name, MaxSize)
	}
	root, err := parseDocument(text)
	if err != nil {
		return nil, formatMistakes(name, []error{err})
	}
	spec := &job.Spec{}
	mistakes := flattenErrors(parseSpec(root, spec))
	spec.SetDefaults()
	mistakes = append(mistakes, locateMistakes(root, independentMistakes(mistakes, limitMistakes(flattenErrors(spec.Validate()))))...)
	if len(mistakes) > 0 {
		return nil, formatMistakes(name, mistakes)
	}
	return spec, nil
}

// syntaxErrorLine is how the YAML library says where a file is none.
var syntaxErrorLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// parseDocument is the file's mapping of keys.
func parseDocument(text []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(text))
	switch err := documents.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0:
		return nil, errors.New("empty: a job file holds at least name, gpus and command")
	case err != nil:
		said := err.Error()
		if m := syntaxErrorLine.FindStringSubmatch(said); m != nil {
			line, _ := strconv.Atoi(m[1])
			return nil, &lineError{line: line, err: errors.New(said[len(m[0]):])}
		}
		return nil, errors.New(strings.TrimPrefix(said, "yaml: "))
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errorAt(root, "a job file is a list of keys such as name: and gpus:")
	}
	if kind := findValue(root, "kind"); kind != nil && findValue(root, "apiVersion") != nil {
		return nil, errorAt(kind, "this is a manifest of Kubernetes, of the kind %s: a job file has keys of its own, see mesos-gpu explain", kind.Value)
	}
	if err := documents.Decode(&more); err == nil {
		return nil, errorAt(&more, "a second document begins here: a job file holds one job")
	}
	return root, nil
}

func parseSpec(root *yaml.Node, spec *job.Spec) error {
	return errors.Join(jobFormat().read(root, spec), checkSingleCount(root))
}

// checkSingleCount refuses two numbers of GPUs, which stand beside share and in it.
func checkSingleCount(root *yaml.Node) error {
	beside, parts := findValue(root, "gpus"), findValue(root, "share")
	if beside == nil || parts == nil {
		return nil
	}
	inside := findValue(parts, "gpus")
	if inside == nil || inside.Value == beside.Value {
		return nil
	}
	return errorAt(inside, "share: gpus: %s, and gpus: %s in line %d: write one of them", inside.Value, beside.Value, beside.Line)
}
