package translate

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/job/jobfile"
	"mesos-gpu/marathon"
)

// translateIfAccepted checks that JobSpec translates every app that ParseApp accepts. It reports whether ParseApp does.
func translateIfAccepted(t testing.TB, text []byte) bool {
	app, err := marathon.ParseApp(text, settings())
	if err != nil {
		return false
	}
	app.Version, app.VersionInfo = deployed, nil // the scheduler sets both
	before, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := JobSpec(app, settings())
	if errors.Is(err, ErrSuspended) {
		return true
	}
	if err != nil {
		t.Errorf("Parse accepts what is no job: %.500s\n%.1000s", err, text)
		return true
	}
	if after, err := json.Marshal(app); err != nil || string(before) != string(after) {
		t.Errorf("the app was changed: %s, was %s (%v)", after, before, err)
	}
	if err := jobfile.Write(io.Discard, &spec); err != nil {
		t.Error(err)
	}
	return true
}

func FuzzJob(f *testing.F) {
	for _, text := range readCorpus(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) { translateIfAccepted(t, text) })
}

// Each value of the corpus is replaced by others, including large and unusual ones: by a third of them each, in turn.
func TestChangedDefinitions(t *testing.T) {
	many := func(n int, v any) []any {
		var all []any
		for range n {
			all = append(all, v)
		}
		return all
	}
	others := []any{
		nil, true, "", "x", "/", "a:b", "\x00", " ", "ü", "..", "host", "null", "1e3", "two\nlines", strings.Repeat("y", 300),
		json.Number("0"), json.Number("-1"), json.Number("1"), json.Number("0.001"), json.Number("65535"), json.Number("100000"),
		json.Number("2147483647"), json.Number("1e300"),
		[]any{}, []any{""}, many(101, map[string]any{}), many(51, []any{"a", "UNIQUE"}),
		map[string]any{}, map[string]any{"x": "y"}, map[string]any{"mesos-gpu.x": "y"},
	}
	n, turn := 0, 0
	for name, text := range readCorpus(t) {
		var v any
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		values := others
		if name == "docker-everything" { // a long text is slow: one definition is enough
			values = append(slices.Clone(others), strings.Repeat("x", 130<<10))
		}
		replaceValues(v, values, func() {
			if turn++; turn%3 != 0 && name != "docker-everything" {
				return
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if translateIfAccepted(t, text) {
				n++
			}
		})
	}
	if n < 1000 {
		t.Errorf("only %d changed definitions were accepted", n)
	}
}

// replaceValues sets values inside v to others and calls changed each time.
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
