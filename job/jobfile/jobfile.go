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
	c.Defaults.addTo(root)
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
	docs, err := decodeDocuments(text)
	switch script := rejectScript(text, name, docs, err); {
	case script != nil:
		err = script
	case err != nil:
		err = describeSyntaxError(err, text)
	case len(docs) == 0:
		err = errors.New("empty: a job file holds at least name and command")
	default:
		return docs, nil
	}
	return nil, formatMistakes(name, []error{err})
}

// decodeDocuments returns the documents of a text before the first syntax error, without those that are empty.
func decodeDocuments(text []byte) (docs []*yaml.Node, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		doc := &yaml.Node{}
		if err = decoder.Decode(doc); errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, err
		}
		if len(doc.Content) > 0 && doc.Content[0].ShortTag() != "!!null" {
			docs = append(docs, doc)
		}
	}
}

// findRoot returns a document's mapping of keys.
func findRoot(doc *yaml.Node) (*yaml.Node, error) {
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, errorAt(root, "a job file is a list of keys such as name: and gpus:")
	}
	return root, rejectForeignFile(root)
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
