// Package jobfile reads and writes job files, in YAML or JSON, and describes their
// keys. One table defines each key; see jobKeys. It rejects unknown keys, with the
// line and the key that was probably meant. It never guesses a value.
//
// The package decides how values are written. Which values a job may have is decided by
// job.Spec.Validate, whose errors get their line here. Clients read files with it, and
// the scheduler reads the jobs and edits that clients send, so its input is not trusted:
// sizes and the number of reported mistakes are limited, and aliases of YAML, which can
// make a small file large, are rejected.
package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/job"
)

// MaxSize is the largest job file that Read accepts, in bytes.
const MaxSize = 1 << 20

// Read parses a job file with one job and completes the job. It returns all mistakes joined. Each
// begins with the file's name and, if it is known, the line and column.
func Read(r io.Reader, name string) (*job.Spec, error) {
	docs, err := readDocuments(r, name)
	if err != nil {
		return nil, err
	}
	if len(docs) > 1 {
		return nil, formatMistakes(name, []error{errorAt(docs[1], "a second document starts here: one job is expected")})
	}
	return readJob(docs[0], name, &Changes{})
}

// ReadAll is Read for a file with one or several documents, each with a job. It changes them by c first.
func ReadAll(r io.Reader, name string, c *Changes) ([]*job.Spec, error) {
	docs, err := readDocuments(r, name)
	if err != nil {
		return nil, err
	}
	var specs []*job.Spec
	var errs []error
	for _, doc := range docs {
		spec, err := readJob(doc, name, c)
		specs, errs = append(specs, spec), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return specs, nil
}

// readJob reads the job of one document and completes it. Variables are replaced before overrides, whose values are taken
// as they are; a mistake in either ends the reading. After that all mistakes are collected: those in values, and those that
// validation finds in the fields that were read without one.
func readJob(doc *yaml.Node, name string, c *Changes) (*job.Spec, error) {
	root, err := findRoot(doc)
	if err != nil {
		return nil, formatMistakes(name, []error{err})
	}
	mistakes := flattenErrors(c.fillValues(root))
	for _, o := range c.Overrides {
		mistakes = append(mistakes, flattenErrors(o.apply(root))...)
	}
	if len(mistakes) > 0 {
		return nil, formatMistakes(name, limitMistakes(mistakes))
	}
	spec := &job.Spec{}
	mistakes = flattenErrors(errors.Join(jobFormat().read(root, spec), checkSingleCount(root)))
	spec.SetDefaults()
	mistakes = append(mistakes, locateMistakes(root, independentMistakes(mistakes, limitMistakes(flattenErrors(spec.Validate()))))...)
	if len(mistakes) > 0 {
		return nil, formatMistakes(name, mistakes)
	}
	return spec, nil
}

// syntaxErrorLine matches the place in a syntax error of the YAML library.
var syntaxErrorLine = regexp.MustCompile(`^yaml: line ([0-9]+): `)

// readDocuments returns the documents of a file, at least one, without those that are empty.
func readDocuments(r io.Reader, name string) ([]*yaml.Node, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err // the others are the operation and the name
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%s: more than %d bytes, which no job file needs", name, MaxSize)
	}
	var docs []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		doc := &yaml.Node{}
		switch err := decoder.Decode(doc); {
		case errors.Is(err, io.EOF) && len(docs) > 0:
			return docs, nil
		case errors.Is(err, io.EOF):
			return nil, formatMistakes(name, []error{errors.New("empty: a job file holds at least name and command")})
		case err != nil:
			return nil, formatMistakes(name, []error{describeSyntaxError(err, text)})
		case len(doc.Content) > 0 && doc.Content[0].ShortTag() != "!!null":
			docs = append(docs, doc)
		}
	}
}

// describeSyntaxError returns an error of the YAML library with the place in a form of its own.
func describeSyntaxError(err error, text []byte) error {
	message := err.Error()
	if m := syntaxErrorLine.FindStringSubmatch(message); m != nil {
		line, _ := strconv.Atoi(m[1])
		return &lineError{line: line, err: errors.New(message[len(m[0]):])}
	}
	if err := findInvalidCharacter(text); err != nil {
		return err
	}
	return errors.New(strings.TrimPrefix(message, "yaml: "))
}

// findInvalidCharacter returns an error at the first byte of a text in UTF-8 that YAML does not allow, or nil.
// The YAML library reports these without their line.
func findInvalidCharacter(text []byte) error {
	line, start := 1, 0
	for i := 0; i < len(text); {
		r, width := utf8.DecodeRune(text[i:])
		column := 1 + utf8.RuneCount(text[start:i])
		switch {
		case r == utf8.RuneError && width == 1:
			return &lineError{line: line, column: column, err: fmt.Errorf("the byte 0x%02x is not UTF-8", text[i])}
		case r < ' ' && !strings.ContainsRune("\t\n\r", r), r == 0x7f:
			return &lineError{
				line:   line,
				column: column,
				err:    fmt.Errorf("the control character %U is not allowed: write it as an escape in double quotes, \"\\x%02x\"", r, r),
			}
		case r == '\n':
			line, start = line+1, i+1
		}
		i += width
	}
	return nil
}

// findRoot returns a document's mapping of keys.
func findRoot(doc *yaml.Node) (*yaml.Node, error) {
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errorAt(root, "a job file is a list of keys such as name: and gpus:")
	}
	if kind := findValue(root, "kind"); kind != nil && findValue(root, "apiVersion") != nil {
		return nil, errorAt(kind, "this is a manifest of Kubernetes, of the kind %s: a job file has keys of its own, see mesos-gpu explain", kind.Value)
	}
	return root, nil
}

// checkSingleCount rejects two different numbers of GPUs: gpus, and gpus in share.
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
