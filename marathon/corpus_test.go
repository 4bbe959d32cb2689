package marathon

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "rewrite docs/reference/marathon.md and the golden files: commit them only if you understand each change")

func testSettings() ParseSettings {
	return ParseSettings{Role: "web", BridgeNetwork: MesosBridge, Strict: true}
}

// readCorpus returns the files of one folder of testdata by name.
func readCorpus(t testing.TB, folder string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".json")] = text
	}
	return files
}

// encodeJSON returns indented JSON.
func encodeJSON(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// For each definition in the corpus, the golden file contains the result: the definition with its defaults in the new
// form, or the body of the 422.
func TestCorpus(t *testing.T) {
	files := readCorpus(t, "apps")
	if len(files) < 60 {
		t.Errorf("the corpus has %d definitions, want at least 60", len(files))
	}
	valid := 0
	for name, text := range files {
		t.Run(name, func(t *testing.T) {
			app, err := ParseApp(text, testSettings())
			if err != nil {
				checkGolden(t, name, encodeRejection(t, err))
				return
			}
			valid++
			checkGolden(t, name, encodeJSON(t, app))
			requireIdempotent(t, app)
		})
	}
	if valid < 30 || len(files)-valid < 30 {
		t.Errorf("%d of %d are valid: want 30 of both kinds", valid, len(files))
	}
}

func encodeRejection(t *testing.T, err error) []byte {
	t.Helper()
	var i *ValidationError
	if !errors.As(err, &i) {
		t.Fatalf("got %v, want *Invalid", err)
	}
	return encodeJSON(t, i)
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".json")
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got), -rewrite if it is meant:\n%s", diff)
	}
}

// requireIdempotent checks that an app does not change when it is written and parsed again.
func requireIdempotent(t testing.TB, app *App) {
	t.Helper()
	first := encodeJSON(t, app)
	second, err := ParseApp(first, testSettings())
	if err != nil {
		t.Fatalf("what was accepted is refused when it comes back: %v\n%s", err, first)
	}
	if diff := cmp.Diff(string(first), string(encodeJSON(t, second))); diff != "" {
		t.Errorf("written and read again (-first +second):\n%s", diff)
	}
}

// Each golden file has a definition.
func TestGoldenFilesHaveDefinitions(t *testing.T) {
	files := readCorpus(t, "apps")
	for name := range readCorpus(t, "golden") {
		if _, ok := files[name]; !ok {
			t.Errorf("testdata/golden/%s.json has no definition", name)
		}
	}
}

// The corpus contains each field of the table.
func TestCorpusNamesEveryField(t *testing.T) {
	met := map[string]bool{}
	for _, text := range readCorpus(t, "apps") {
		if v, err := decodeJSON(text); err == nil {
			markFields(appSchema(), v, met)
		}
	}
	for _, f := range AppFields() {
		if !met[f.Path] {
			t.Errorf("no definition of the corpus has %s", f.Path)
		}
	}
}

// markFields records the fields that a value contains.
func markFields(n *schemaNode, v any, met map[string]bool) {
	if n == nil || v == nil {
		return
	}
	met[n.field.Path] = true
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			if child, ok := n.members[name]; ok {
				markFields(child, below, met)
			} else {
				markFields(n.rest, below, met)
			}
		}
	case []any:
		for _, element := range v {
			markFields(n.each, element, met)
		}
	}
}
