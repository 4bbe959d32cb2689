package job

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func pairsOf(text string) map[string]string {
	m := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		m[name] = value
	}
	return m
}

func entriesOf(texts ...string) (all []map[string]string) {
	for _, text := range texts {
		all = append(all, pairsOf(text))
	}
	return all
}

func combinations(m *Matrix) (all []map[string]string) {
	n, of := m.Combinations()
	for i := range n {
		all = append(all, of(i))
	}
	return all
}

// The example of GitHub's documentation, and special cases of each list.
func TestCombinations(t *testing.T) {
	fruits := []MatrixAxis{{"fruit", []string{"apple", "pear"}}, {"animal", []string{"cat", "dog"}}}
	for _, c := range []struct {
		name string
		m    Matrix
		want []string
	}{
		{"last axis fastest", Matrix{Axes: fruits}, []string{"fruit=apple animal=cat", "fruit=apple animal=dog", "fruit=pear animal=cat", "fruit=pear animal=dog"}},
		{"github's include", Matrix{
			Axes:    fruits,
			Include: entriesOf("color=green", "color=pink animal=cat", "fruit=apple shape=circle", "fruit=banana", "fruit=banana animal=cat"),
		}, []string{
			"fruit=apple animal=cat color=pink shape=circle", "fruit=apple animal=dog color=green shape=circle",
			"fruit=pear animal=cat color=pink", "fruit=pear animal=dog color=green", "fruit=banana", "fruit=banana animal=cat",
		}},
		{"exclude in part", Matrix{Axes: fruits, Exclude: entriesOf("fruit=pear", "fruit=apple animal=dog")}, []string{"fruit=apple animal=cat"}},
		{"include brings back",
			Matrix{Axes: fruits, Exclude: entriesOf("fruit=pear"), Include: entriesOf("fruit=pear animal=cat")},
			[]string{"fruit=apple animal=cat", "fruit=apple animal=dog", "fruit=pear animal=cat"}},
		{"entries alone", Matrix{Include: entriesOf("a=1", "a=1 b=2")}, []string{"a=1", "a=1 b=2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(entriesOf(c.want...), combinations(&c.m)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// For any matrix, each combination that is not excluded exists once, and no other exists. An entry of include changes
// no axis.
func TestCombinationsMatchNaiveExpansion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Matrix
		values := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "2", "3", "4"}), 1, 4, rapid.ID[string])
		for i := range rapid.IntRange(1, 3).Draw(t, "axes") {
			m.Axes = append(m.Axes, MatrixAxis{Name: string(rune('a' + i)), Values: values.Draw(t, "values")})
		}
		entry := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"1", "2", "5"}), 1, 4)
		m.Exclude = rapid.SliceOfN(entry, 0, 3).Draw(t, "exclude")
		m.Include = rapid.SliceOfN(entry, 0, 3).Draw(t, "include")
		for i := range m.Exclude {
			maps.DeleteFunc(m.Exclude[i], func(name, _ string) bool {
				return !slices.ContainsFunc(m.Axes, func(a MatrixAxis) bool { return a.Name == name })
			})
		}
		m.Exclude = slices.DeleteFunc(m.Exclude, func(e map[string]string) bool { return len(e) == 0 })
		want := 0
		for i := range m.axesProduct() { // counted in another way
			left := true
			for _, e := range m.Exclude {
				all, rest := true, i
				for _, a := range slices.Backward(m.Axes) {
					v := a.Values[rest%len(a.Values)]
					rest /= len(a.Values)
					if other, ok := e[a.Name]; ok && other != v {
						all = false
					}
				}
				left = left && !all
			}
			if left {
				want++
			}
		}
		got := combinations(&m)
		if more := len(got) - want; more < 0 || more > len(m.Include) {
			t.Fatalf("%d combinations of %d, with %d entries to include", len(got), want, len(m.Include))
		}
		seen := map[string]bool{}
		for _, c := range got[:want] {
			key := ""
			for _, a := range m.Axes {
				if !slices.Contains(a.Values, c[a.Name]) {
					t.Fatalf("%v has a value that %s has not", c, a.Name)
				}
				key += c[a.Name] + " "
			}
			if seen[key] {
				t.Fatalf("%v is there twice", c)
			}
			seen[key] = true
		}
	})
}

func TestTaskCommand(t *testing.T) {
	s := Spec{
		Matrix:  &Matrix{Axes: []MatrixAxis{{"lr", []string{"0.1"}}, {"seed", []string{"1"}}}},
		Command: []string{"train", "--lr={{matrix.lr}}", "{{ matrix.seed }}-{{matrix.lr}}", "{{.Name}} {{matrix.other}}"},
	}
	command := s.TaskCommand(map[string]string{"lr": "0.1", "seed": "$1 {{matrix.lr}}"})
	if diff := cmp.Diff([]string{"train", "--lr=0.1", "$1 {{matrix.lr}}-0.1", "{{.Name}} {{matrix.other}}"}, command); diff != "" {
		t.Errorf("command: %s", diff)
	}
	if s.Command[1] != "--lr={{matrix.lr}}" {
		t.Errorf("the specification has changed: %q", s.Command)
	}
	s.Matrix = nil
	if command := s.TaskCommand(nil); command[1] != "--lr={{matrix.lr}}" {
		t.Errorf("without a matrix: %q", command)
	}
}

// A command with inserted values has the same size limit as any command.
func TestMatrixIsBounded(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	s := Spec{Name: "a", Matrix: &Matrix{Axes: []MatrixAxis{{"v", []string{"1", long}}}}, Command: []string{"echo", "{{matrix.v}}{{matrix.v}}"}}
	s.SetDefaults()
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "command: word 2 has 204800 bytes, more than the kernel's") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkCombinations(b *testing.B) {
	var values []string
	for i := range 100 {
		values = append(values, strconv.Itoa(i))
	}
	m := Matrix{Axes: []MatrixAxis{{"a", values}, {"b", values}}, Include: entriesOf("a=1 c=1", "d=1")}
	for b.Loop() {
		m.Combinations()
	}
}

// The size of a matrix is checked before its combinations are computed.
func TestMatrixValuesAreBounded(t *testing.T) {
	values := make([]string, MaxTasks)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	names := func(n int) map[string]string {
		entry := map[string]string{}
		for i := range n {
			entry["k"+strconv.Itoa(i)] = ""
		}
		return entry
	}
	for _, c := range []struct {
		include int
		want    string
	}{
		{19, ""},
		{20, "21 names in 10000 combinations are 210000 values, more than 200000"},
		{101, "include: item 1: has 101 names, more than 100"},
	} {
		s := Spec{Name: "a", Command: []string{"true"}, Matrix: &Matrix{Axes: []MatrixAxis{{"a", values}}, Include: []map[string]string{names(c.include)}}}
		s.SetDefaults()
		if err := s.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d names: got %v, want %q", c.include, err, c.want)
		}
	}
}
