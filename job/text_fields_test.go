package job

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// textField is a place in a Spec where a text may be: a field, or an element, a key or a value of one.
type textField struct {
	// path names the fields from the Spec to the text, such as Volumes[].Source or Env[key].
	path string
	// set stores the text in a value of the type that was searched, with the slices, maps and pointers on the way to it.
	set func(v reflect.Value, text string)
}

// textFieldsOf returns all places of texts in a type. It fails for a type that it cannot search.
func textFieldsOf(t *testing.T, typ reflect.Type) []textField {
	t.Helper()
	var list []textField
	// wrap adds the places of a part, each reached from its owner by open, which returns the part and stores it again.
	wrap := func(step string, part reflect.Type, open func(v reflect.Value, fill func(reflect.Value))) {
		for _, f := range textFieldsOf(t, part) {
			set := func(v reflect.Value, text string) { open(v, func(inner reflect.Value) { f.set(inner, text) }) }
			list = append(list, textField{path: step + f.path, set: set})
		}
	}
	switch typ.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
	case reflect.String:
		list = append(list, textField{set: reflect.Value.SetString})
	case reflect.Pointer:
		wrap("", typ.Elem(), func(v reflect.Value, fill func(reflect.Value)) {
			v.Set(reflect.New(typ.Elem()))
			fill(v.Elem())
		})
	case reflect.Slice:
		wrap("[]", typ.Elem(), func(v reflect.Value, fill func(reflect.Value)) {
			v.Set(reflect.MakeSlice(typ, 1, 1))
			fill(v.Index(0))
		})
	case reflect.Map:
		setEntry := func(v, key, value reflect.Value) {
			v.Set(reflect.MakeMap(typ))
			v.SetMapIndex(key, value)
		}
		wrap("[key]", typ.Key(), func(v reflect.Value, fill func(reflect.Value)) {
			key := reflect.New(typ.Key()).Elem()
			fill(key)
			setEntry(v, key, reflect.Zero(typ.Elem()))
		})
		wrap("[value]", typ.Elem(), func(v reflect.Value, fill func(reflect.Value)) {
			value := reflect.New(typ.Elem()).Elem()
			fill(value)
			setEntry(v, reflect.Zero(typ.Key()), value)
		})
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.PkgPath != "" {
				continue // a private field of another package's type
			}
			step := "." + f.Name
			if f.Anonymous {
				step = ""
			}
			wrap(step, f.Type, func(v reflect.Value, fill func(reflect.Value)) { fill(v.Field(i)) })
		}
	default:
		t.Fatalf("%s: textFieldsOf must learn to search a %s", typ, typ.Kind())
	}
	return list
}

// specTextFields returns all places of texts in a Spec, whose paths have no dot in front.
func specTextFields(t *testing.T) []textField {
	t.Helper()
	list := textFieldsOf(t, reflect.TypeFor[Spec]())
	for i := range list {
		list[i].path = strings.TrimPrefix(list[i].path, ".")
	}
	return list
}

// isBelow reports whether a path is that of a field, or of a part of it.
func isBelow(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// checkExceptions reports exceptions that name no field.
func checkExceptions(t *testing.T, fields []textField, exceptions []string) {
	t.Helper()
	for _, exception := range exceptions {
		if !slices.ContainsFunc(fields, func(f textField) bool { return isBelow(f.path, exception) }) {
			t.Errorf("the exception %s is no field of a Spec with a text", exception)
		}
	}
}

// TestTextBytesCountsAllTexts checks that every text whose length a user may choose counts. A field that it names must be
// added to TextBytes.
func TestTextBytesCountsAllTexts(t *testing.T) {
	// These have one of a few values: Validate rejects a long text.
	closed := []string{
		"Containerizer", "IPC", "OnTimeout", "Request.Topology", "Ports[].Protocol", "Constraints[].Operator",
		"After[].Outcome", "Schedule.Overlap",
	}
	// The scheduler derives these from Constraints. They are not stored.
	derived := []string{"Request.Types.Rules"}
	fields := specTextFields(t)
	checkExceptions(t, fields, slices.Concat(closed, derived))
	text := strings.Repeat("x", 1000)
	for _, f := range fields {
		var s Spec
		before := s.TextBytes()
		f.set(reflect.ValueOf(&s).Elem(), text)
		is := func(exception string) bool { return isBelow(f.path, exception) }
		switch got := s.TextBytes() - before; {
		case slices.ContainsFunc(derived, is):
		case slices.ContainsFunc(closed, is):
			if err := s.Validate(); err == nil || !strings.Contains(err.Error(), text[:80]) {
				t.Errorf("%s may have any text, so that TextBytes must count it: %v", f.path, err)
			}
		case got < len(text) || got > len(text)+100:
			t.Errorf("%s of %d bytes counts as %d: add it to TextBytes", f.path, len(text), got)
		}
	}
}

// TestInternSpecSharesAllTexts checks that each text, list and map that two specifications have in common is shared. A field
// that it names must be added to InternSpec, or to the exceptions.
func TestInternSpecSharesAllTexts(t *testing.T) {
	exceptions := map[string]string{
		"Name":                "each job has its own",
		"ClientKey":           "each submission has its own",
		"Request.Types.Rules": "they are not stored",
	}
	// An Interner replaces texts, lists of texts and maps of texts. It does not modify what may be shared already: what a
	// pointer points to, and the elements of a list. Few jobs have many of these.
	for _, field := range []string{
		"Matrix", "Constraints", "After", "Schedule", "Service", "Volumes", "Fetch", "Ports", "Ulimits", "Parameters",
		"HealthCheck", "MoreHealthChecks", "Check", "Warn", "Notify",
	} {
		exceptions[field] = "its texts are behind a pointer, or in a list of structures"
	}
	fields := specTextFields(t)
	checkExceptions(t, fields, slices.Collect(maps.Keys(exceptions)))
	for _, f := range fields {
		isException := false
		for exception := range exceptions {
			isException = isException || isBelow(f.path, exception)
		}
		if isException {
			continue
		}
		var n Interner
		var specs [2]Spec
		for i := range specs {
			f.set(reflect.ValueOf(&specs[i]).Elem(), string([]byte("a text of this specification alone")))
			n.InternSpec(&specs[i])
		}
		if first, second := identityAt(&specs[0], f.path), identityAt(&specs[1], f.path); first != second {
			t.Errorf("%s is not shared by two specifications: add it to InternSpec", f.path)
		}
	}
}

// identityAt returns the address of a text, list or map of a Spec, which two specifications share only if it is equal.
func identityAt(s *Spec, path string) unsafe.Pointer {
	v := reflect.ValueOf(s).Elem()
	path, _, _ = strings.Cut(path, "[")
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	if v.Kind() == reflect.String {
		return unsafe.Pointer(unsafe.StringData(v.String()))
	}
	return v.UnsafePointer()
}
