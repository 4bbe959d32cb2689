package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Key is one of a job file's keys, for people.
type Key struct {
	Name string
	// Doc says what it is and what it takes, Default what holds where it is
	// left out, which may be empty.
	Doc, Default string
	// Parts are the keys inside its value, where it may have some.
	Parts []string
}

// Keys lists the keys in the order in which the documentation does.
func Keys() []Key {
	all := make([]Key, len(keys))
	for i, k := range keys {
		all[i] = Key{Name: k.name, Doc: plainText(k.doc), Default: plainText(k.def), Parts: k.shape.parts()}
	}
	return all
}

// Explain finds a key by its name, and names the one that was probably meant
// where there is none.
func Explain(name string) (Key, error) {
	var names []string
	for _, k := range Keys() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	if best := meant(name, names); best != "" {
		return Key{}, fmt.Errorf("a job file has no key %q; did you mean %q?", name, best)
	}
	return Key{}, fmt.Errorf("a job file has no key %q", name)
}

// link finds Markdown's links.
var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plainText is Markdown without its links and quotes of code.
func plainText(markdown string) string {
	return strings.ReplaceAll(link.ReplaceAllString(markdown, "$1"), "`", "")
}

// Schema is the JSON Schema of job files (draft 2020-12). What it refuses,
// Read refuses too; Read also knows what no schema can say, such as which keys
// go together.
func Schema() ([]byte, error) {
	properties := map[string]shape{}
	for _, k := range keys {
		s := shape{"description": plainText(k.doc)}
		for word, value := range k.shape {
			s[word] = value
		}
		if k.def != "" && k.def != required {
			s["description"] = fmt.Sprintf("%s (default: %s)", plainText(k.doc), plainText(k.def))
		}
		properties[k.name] = s
	}
	root := object(properties, needed()...)
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

// required stands for the default of a key that has none.
const required = "required"

// needed are the keys that no job file goes without.
func needed() []string {
	var names []string
	for _, k := range keys {
		if k.def == required {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}
