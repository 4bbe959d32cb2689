package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// KeyInfo explains one of a job file's keys.
type KeyInfo struct {
	// Name is the key's name after those of the keys that contain it: "health_check.http.port".
	Name string
	// Doc describes the key and its values. Default is the effect of an absent key; it may be empty. Both are plain
	// text.
	Doc, Default string
	// Parts are the names of the keys inside its value, sorted.
	Parts []string
}

// Keys lists the outer keys in the order of the documentation.
func Keys() []KeyInfo {
	var all []KeyInfo
	for _, k := range jobFormat().keys {
		all = append(all, k.explain(k.name))
	}
	return all
}

// explain returns the explanation of a key as plain text. path is its name with those of the keys around it.
func (k keyNode) explain(path string) KeyInfo {
	info := KeyInfo{Name: path, Doc: plainText(k.doc), Default: plainText(k.def)}
	for _, part := range k.keys {
		info.Parts = append(info.Parts, part.name)
	}
	slices.Sort(info.Parts)
	return info
}

// ExplainKey returns the key of a path, whose parts are separated by dots. The error names the key that was probably
// meant.
func ExplainKey(path string) (KeyInfo, error) {
	at := keyNode{keys: jobFormat().keys}
	var outer []string
	for name := range strings.SplitSeq(path, ".") {
		i := slices.IndexFunc(at.keys, func(k keyNode) bool { return k.name == name })
		if i < 0 {
			return KeyInfo{}, unknownPath(strings.Join(outer, "."), name, at.explain("").Parts)
		}
		at = at.keys[i]
		outer = append(outer, name)
	}
	return at.explain(path), nil
}

// unknownPath returns the error for a name that is not a key inside outer.
func unknownPath(outer, name string, known []string) error {
	subject, best := "a job file", closestKey(name, known)
	if outer != "" {
		subject = outer
		if best != "" {
			best = outer + "." + best
		}
	}
	switch {
	case len(known) == 0:
		return fmt.Errorf("%s has no keys inside", subject)
	case best != "":
		return fmt.Errorf("%s has no key %q; did you mean %q?", subject, name, best)
	case outer == "":
		return fmt.Errorf("%s has no key %q", subject, name)
	}
	return fmt.Errorf("%s has no key %q, but %s", subject, name, strings.Join(known, ", "))
}

// markdownLink matches a link of Markdown.
var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plainText is Markdown without its links and quotes of code.
func plainText(markdown string) string {
	return strings.ReplaceAll(markdownLink.ReplaceAllString(markdown, "$1"), "`", "")
}

// Schema returns the JSON Schema of job files (draft 2020-12). Read rejects
// what it rejects, except yes, no, on and off instead of true and false, which are
// texts in JSON. Read also rejects what no schema can express, such as keys that
// exclude each other.
func Schema() ([]byte, error) {
	root := jobFormat().withSchema("$schema", "https://json-schema.org/draft/2020-12/schema").
		withSchema("$id", "urn:mesos-gpu:job-file"). // each scheduler serves it at an address of its own
		withSchema("title", "mesos-gpu job file").schema
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return text.Bytes(), nil
}
