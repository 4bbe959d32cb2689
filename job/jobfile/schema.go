package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// KeyInfo is one of a job file's keys, for people.
type KeyInfo struct {
	Name string
	// Doc says what it is and what it takes, Default what holds where it is
	// left out, which may be empty.
	Doc, Default string
	// Parts are the keys inside its value, where it may have some.
	Parts []string
}

// Keys lists the keys in the order in which the documentation does.
func Keys() []KeyInfo {
	all := make([]KeyInfo, len(keys))
	for i, k := range keys {
		all[i] = KeyInfo{Name: k.name, Doc: plainText(k.doc), Default: plainText(k.def), Parts: k.schema.partNames()}
	}
	return all
}

// ExplainKey finds a key by its name, and names the one that was probably meant
// where there is none.
func ExplainKey(name string) (KeyInfo, error) {
	var names []string
	for _, k := range Keys() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	if best := closestKey(name, names); best != "" {
		return KeyInfo{}, fmt.Errorf("a job file has no key %q; did you mean %q?", name, best)
	}
	return KeyInfo{}, fmt.Errorf("a job file has no key %q", name)
}

// markdownLink finds Markdown's links.
var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plainText is Markdown without its links and quotes of code.
func plainText(markdown string) string {
	return strings.ReplaceAll(markdownLink.ReplaceAllString(markdown, "$1"), "`", "")
}

// Schema is the JSON Schema of job files (draft 2020-12). What it refuses,
// Read refuses too; Read also knows what no schema can say, such as which keys
// go together.
func Schema() ([]byte, error) {
	properties := map[string]valueSchema{}
	for _, k := range keys {
		s := valueSchema{"description": plainText(k.doc)}
		for word, value := range k.schema {
			s[word] = value
		}
		if k.def != "" && k.def != requiredDefault {
			s["description"] = fmt.Sprintf("%s (default: %s)", plainText(k.doc), plainText(k.def))
		}
		properties[k.name] = s
	}
	root := objectSchema(properties, requiredKeys()...)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = schemaID
	root["title"] = "mesos-gpu job file"
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("encode schema: %w", err)
	}
	return text.Bytes(), nil
}

// schemaID names the schema wherever it lies: each scheduler serves it.
const schemaID = "urn:mesos-gpu:job-file"

// requiredDefault stands for the default of a key that has none.
const requiredDefault = "required"

// requiredKeys are the keys that no job file goes without.
func requiredKeys() []string {
	var names []string
	for _, k := range keys {
		if k.def == requiredDefault {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}
