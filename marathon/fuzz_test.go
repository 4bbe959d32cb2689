package marathon

import (
	"encoding/json"
	"errors"
	"maps"
	"testing"
)

// For any text, ParseApp does not panic, reports mistakes in Marathon's form, and parses again what it accepted.
func FuzzParse(f *testing.F) {
	for _, text := range readCorpus(f, "apps") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		app, err := ParseApp(text, testSettings())
		if err != nil {
			checkErrorForm(t, err)
			return
		}
		requireIdempotent(t, app)
	})
}

// The same for ParseGroup.
func FuzzParseGroup(f *testing.F) {
	f.Add([]byte(`{"id": "g", "dependencies": ["h"], "apps": [{"id": "a", "cmd": "b"}], "groups": [{"id": "i", "groups": []}]}`))
	f.Add([]byte(`{"scaleBy": 1.5}`))
	f.Add([]byte(`{"apps": [null, {"id": "a", "cmd": "b", "dependencies": ["a"]}], "groups": [null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := ParseGroup(text, "/", testSettings())
		if err != nil {
			checkErrorForm(t, err)
			return
		}
		if first, second := groupOrder(g), groupOrder(parseGroup(t, string(encodeJSON(t, g)), "/")); first != second {
			t.Errorf("the order is %s, and %s when written and read again", first, second)
		}
	})
}

func checkErrorForm(t *testing.T, err error) {
	t.Helper()
	if m := (*SyntaxError)(nil); errors.As(err, &m) {
		return
	}
	i := (*ValidationError)(nil)
	if !errors.As(err, &i) || len(i.Details) == 0 {
		t.Fatalf("got %v, want *Invalid with details", err)
	}
	for _, d := range i.Details {
		if d.Path == "" || d.Path[0] != '/' || len(d.Errors) == 0 {
			t.Errorf("%+v", d)
		}
	}
}

// Random bytes are rarely JSON. This test replaces every value of the corpus by others, and merges definitions.
func TestChangedDefinitions(t *testing.T) {
	others := []any{nil, true, "", "x", json.Number("-1"), json.Number("0"), json.Number("1e300"), []any{}, map[string]any{}, []any{nil}, map[string]any{"x": nil}}
	accepted := 0
	try := func(v any) {
		text := encodeJSON(t, v)
		app, err := ParseApp(text, testSettings())
		if err != nil {
			checkErrorForm(t, err)
			return
		}
		accepted++
		requireIdempotent(t, app)
	}
	var whole []map[string]any
	files := readCorpus(t, "apps")
	for _, name := range sortedKeys(files) {
		v, err := decodeJSON(files[name])
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := v.(map[string]any); ok {
			whole = append(whole, m)
			replaceValues(m, others, func() { try(m) })
		}
	}
	for i, a := range whole {
		for j := i % 5; j < len(whole); j += 5 { // each with a fifth of the others
			b := whole[j]
			both := maps.Clone(a)
			maps.Copy(both, b)
			try(both)
		}
	}
	if accepted < 1000 {
		t.Errorf("only %d changed definitions were accepted", accepted)
	}
}

// replaceValues sets each value inside v to each of others and calls changed each time.
func replaceValues(v any, others []any, changed func()) {
	switch v := v.(type) {
	case map[string]any:
		for name, was := range v {
			for _, other := range others {
				v[name] = other
				changed()
			}
			v[name] = was
			replaceValues(was, others, changed)
		}
	case []any:
		for i, was := range v {
			for _, other := range others {
				v[i] = other
				changed()
			}
			v[i] = was
			replaceValues(was, others, changed)
		}
	}
}
