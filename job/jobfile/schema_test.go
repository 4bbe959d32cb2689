package jobfile

import (
	"bytes"
	flags "flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var rewrite = flags.Bool("rewrite", false, "write docs/reference/job.schema.json and the table of docs/reference/job-file.md")

func docsPath(name string) string { return filepath.Join("..", "..", "docs", "reference", name) }

// checkPublished compares a file's text, or the part of it that find returns, with what is generated.
func checkPublished(t *testing.T, file, want string, find func(text string) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	got := find(string(text))
	if *rewrite {
		all := strings.Replace(string(text), got, want, 1)
		if err := os.WriteFile(file, []byte(all), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-generated +published); update it with -rewrite:\n%s", file, diff)
	}
}

// The published schema is the generated one.
func TestPublishedSchema(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	checkPublished(t, docsPath("job.schema.json"), string(text), func(all string) string { return all })
}

// The table in the documentation is generated from the table of keys.
func TestDocumentedKeys(t *testing.T) {
	var want strings.Builder
	for _, k := range jobKeys() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", k.name, k.doc, k.def)
	}
	table := regexp.MustCompile("(?m)(^\\| `.*\n)+")
	checkPublished(t, docsPath("job-file.md"), want.String(), table.FindString)
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("job.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("job.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON returns a YAML document as a JSON validator reads it. ok is false if the text is not a YAML document.
func asJSON(text string) (v any, ok bool) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 {
		return nil, false
	}
	return plainValue(doc.Content[0]), true
}

func plainValue(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = plainValue(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, plainValue(item))
		}
		return list
	case yaml.AliasNode:
		return plainValue(n.Alias)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return n.Value
	}
	switch v.(type) {
	case int, float64, bool, nil:
		return v
	}
	return n.Value
}

// beyondSchema are files that Read rejects for reasons that no schema expresses: keys that exclude or require each
// other, numbers that depend on others, duplicates, and the syntax of other languages such as cron's.
var beyondSchema = []string{
	"after itself", "after twice", "axis twice", "cron's seconds", "cron's zone", "host port too large", "host port twice",
	"interval", "label twice", "matrix and env",
	"matrix of a gang", "no axis", "no command", "no cron", "no image", "no interval", "no such day", "no such index", "no zone", "none left", "other tasks",
	"parallel gang", "path of a secret's file", "placeholder of some", "port of the host's network",
	"pull secret of a mesos container", "pull secret's path", "relative source", "scheduled dependency", "scheduled service",
	"secret and env", "secret of the matrix", "secret's path", "share with topology", "too many",
	"twice", "two jobs", "two numbers of GPUs", "type without GPU", "ulimit's name", "unknown placeholder", "value twice",
}

// The schema accepts every file that Read accepts.
func TestSchemaAcceptsWhatReadAccepts(t *testing.T) {
	schema := compileSchema(t)
	for name, text := range acceptedFiles(t) {
		v, ok := asJSON(text)
		if _, err := Read(strings.NewReader(text), name); err != nil || !ok {
			t.Errorf("%s is refused: %v", name, err)
			continue
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("the schema refuses %s: %v\n%s", name, err, text)
		}
	}
}

// acceptedFiles returns the examples, and the valid files of this package's other tests.
func acceptedFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "examples", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(text)
		}
	}
	if len(all) < 8 {
		t.Fatalf("found only %d examples", len(all))
	}
	for _, c := range containers {
		all[c.name] = c.file
	}
	for _, c := range services {
		all[c.name] = head + c.lines
	}
	for _, c := range orders {
		all[c.name] = head + c.lines
	}
	for i, file := range every {
		all[fmt.Sprintf("every %d", i)] = file
	}
	return all
}

// Read rejects every file that the schema rejects. Of the files that Read rejects, the schema accepts only
// beyondSchema.
func TestSchemaRejectsWhatReadRejects(t *testing.T) {
	schema := compileSchema(t)
	var taken []string
	n := 0
	for name, text := range rejectedFiles() {
		v, ok := asJSON(text)
		if _, err := Read(strings.NewReader(text), name); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if !ok {
			continue // no YAML
		}
		if n++; schema.Validate(v) == nil {
			taken = append(taken, name)
		}
	}
	slices.Sort(taken)
	if diff := cmp.Diff(beyondSchema, taken); diff != "" {
		t.Errorf("of %d files that Read refuses the schema takes (-want +got):\n%s", n, diff)
	}
}

func rejectedFiles() map[string]string {
	all := map[string]string{}
	for _, c := range refusals {
		all[c.name] = c.file
	}
	for _, c := range containerRefusals {
		all[c.name] = head + c.lines
	}
	for _, c := range orderRefusals {
		all[c.name] = head + c.lines
	}
	return all
}

// partNames returns the keys inside a value, sorted.
func (s valueSchema) partNames() []string {
	if properties, ok := s["properties"].(map[string]valueSchema); ok {
		return slices.Sorted(maps.Keys(properties))
	}
	if items, ok := s["items"].(valueSchema); ok {
		return items.partNames()
	}
	if choices, ok := s["anyOf"].([]valueSchema); ok {
		for _, choice := range choices {
			if names := choice.partNames(); names != nil {
				return names
			}
		}
	}
	return nil
}

// TestSchemaListsEveryReadableKey compares the keys in the schema with those that the error for an unknown key lists.
func TestSchemaListsEveryReadableKey(t *testing.T) {
	told := regexp.MustCompile(`unknown key "zzzzzzzz"; the keys are (.*)`)
	found := 0
	for _, k := range jobKeys() {
		objects(k.schema, func(inner string) string { return inner }, func(s valueSchema, wrap func(string) string) {
			file := "name: a\n" + k.name + ": " + wrap("{zzzzzzzz: 1}") + "\n"
			_, err := Read(strings.NewReader(file), "f")
			if err == nil {
				t.Errorf("%s is accepted", file)
				return
			}
			m := told.FindStringSubmatch(err.Error())
			if m == nil {
				t.Errorf("%s: got %v", file, err)
				return
			}
			found++
			if want := strings.Join(s.partNames(), ", "); m[1] != want {
				t.Errorf("%s: %s reads %s, the schema has %s", file, k.name, m[1], want)
			}
		})
	}
	if found < 15 {
		t.Errorf("found only %d values with keys", found)
	}
}

// objects calls f for each object in the schema that allows only its own keys. wrap returns a value of the object's
// key in its context.
func objects(s valueSchema, wrap func(string) string, f func(s valueSchema, wrap func(string) string)) {
	if properties, ok := s["properties"].(map[string]valueSchema); ok {
		if s["additionalProperties"] == false {
			f(s, wrap)
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			objects(properties[name], func(inner string) string { return wrap("{" + name + ": " + inner + "}") }, f)
		}
	}
	if items, ok := s["items"].(valueSchema); ok {
		objects(items, func(inner string) string { return wrap("[" + inner + "]") }, f)
	}
	if choices, ok := s["anyOf"].([]valueSchema); ok {
		for _, choice := range choices {
			objects(choice, wrap, f)
		}
	}
}

func TestExplain(t *testing.T) {
	got, err := ExplainKey("share")
	want := KeyInfo{Name: "share", Doc: "a part of each GPU: {memory: 4GiB, cores: 30}", Default: "all of it", Parts: []string{"cores", "gpus", "memory"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, want := range map[string]string{
		"gpu_typ":  `a job file has no key "gpu_typ"; did you mean "gpu_type"?`,
		"zzzzzzzz": `a job file has no key "zzzzzzzz"`,
	} {
		if _, err := ExplainKey(name); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, k := range Keys() {
		if k.Doc == "" || strings.ContainsAny(k.Doc, "`") || strings.Contains(k.Doc, "](") {
			t.Errorf("%s: %q is not a plain text", k.Name, k.Doc)
		}
	}
}
