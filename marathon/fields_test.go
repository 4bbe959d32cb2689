package marathon

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/job"
)

const (
	appHead   = "## The fields of an app\n\n"
	groupHead = "\n## The fields of a group\n\n"
)

// The document ends with the tables of fields.
func TestFieldsAreDocumented(t *testing.T) {
	path := filepath.Join("..", "docs", "reference", "marathon.md")
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prose, rows, ok := strings.Cut(string(document), appHead)
	if !ok {
		t.Fatal("docs/reference/marathon.md has no table of fields")
	}
	want := fieldTable(AppFields()) + groupHead + fieldTable(GroupFields())
	if *rewrite {
		if err := os.WriteFile(path, []byte(prose+appHead+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if rows != want {
		t.Error("the tables in docs/reference/marathon.md are not the code's; -rewrite writes them")
	}
}

// fieldTable omits elements of lists, which the rows of the lists describe, fields that are as refused, replaced or
// informational as the field that contains them, and fields of which there is no more to report than what Marathon
// documents. Fields of one object with equal cells share a row; a row of the same object as the row above begins with a dot.
func fieldTable(fields []Field) string {
	type tableRow struct {
		names         []string
		parent, cells string
	}
	var table []tableRow
	rows := map[string]Field{}
	for _, f := range fields {
		rows[f.Path] = f
		if strings.HasSuffix(f.Path, "[]") || f.Why == "" || isCovered(rows, f) {
			continue
		}
		cut := strings.LastIndex(f.Path, ".") + 1
		parent, name := f.Path[:cut], f.Path[cut:]
		cells := supportText(f) + " |"
		if values := valueText(f); values != "" {
			cells = values + ": " + cells
		}
		same := slices.IndexFunc(table, func(r tableRow) bool { return r.parent == parent && r.cells == cells })
		if same < 0 {
			table = append(table, tableRow{[]string{f.Path}, parent, cells})
			continue
		}
		table[same].names = append(table[same].names, name)
	}
	var b strings.Builder
	b.WriteString("| field | values and support |\n|---|---|\n")
	parent := ""
	for _, r := range table {
		if r.parent != "" && r.parent == parent {
			r.names[0] = strings.TrimPrefix(r.names[0], strings.TrimSuffix(parent, "."))
		}
		parent = r.parent
		fmt.Fprintf(&b, "| `%s` | %s\n", strings.Join(r.names, "`, `"), r.cells)
	}
	return b.String()
}

// isCovered reports whether a field above f says all that the table says about f.
func isCovered(rows map[string]Field, f Field) bool {
	for path := f.Path; strings.Contains(path, "."); {
		path = path[:strings.LastIndex(path, ".")]
		above, ok := rows[strings.TrimSuffix(path, "[]")]
		if !ok {
			continue
		}
		if above.Deprecated != "" && f.Deprecated == "" || above.Support != Honoured && above.Support == f.Support && (f.Why == "" || f.Why == above.Why) {
			return true
		}
	}
	return false
}

// hasOwnDefault reports whether the default of f differs from an absent value.
func hasOwnDefault(f Field) bool {
	return !slices.Contains([]string{"", `""`, "0", "false", "[]", "{}"}, f.Default)
}

// valueText lists the allowed values, whether one is needed, and the default. It is empty for a field whose value has no
// effect.
func valueText(f Field) string {
	if f.Support != Honoured && len(f.Accepts) == 0 {
		return ""
	}
	var parts []string
	switch {
	case len(f.Enum) > 0 && f.Type == String:
		parts = append(parts, strings.Join(f.Enum, ", "))
	case len(f.Enum) > 0:
		parts = append(parts, strings.Replace(f.Type.String(), "string", strings.Join(f.Enum, ", "), 1))
	case f.Min != nil && f.Max != nil:
		parts = append(parts, formatNumber(*f.Min)+" to "+formatNumber(*f.Max))
	case f.Min != nil:
		parts = append(parts, "≥ "+formatNumber(*f.Min))
	}
	if f.Required {
		parts = append(parts, "needed")
	}
	if hasOwnDefault(f) {
		parts = append(parts, "default `"+f.Default+"`")
	}
	return strings.Join(parts, ", ")
}

// supportText is the reason alone for a field that is honoured.
func supportText(f Field) string {
	var s string
	if f.Support != Honoured {
		s = f.Support.String()
	}
	if f.Deprecated != "" {
		s += "becomes `" + f.Deprecated + "`"
	}
	if len(f.Accepts) > 0 {
		s += " except `" + strings.Join(f.Accepts, "`, `") + "`"
	}
	if s != "" && f.Why != "" {
		s += ": "
	}
	return s + f.Why
}

// Each path is in the table once, each default is valid, and each refused field has a reason, itself or above.
func TestFieldTableIsConsistent(t *testing.T) {
	for _, fields := range [][]Field{AppFields(), GroupFields()} {
		seen := map[string]Field{}
		for _, f := range fields {
			if _, ok := seen[f.Path]; ok {
				t.Errorf("%s is given twice", f.Path)
			}
			seen[f.Path] = f
			if f.Type == 0 {
				t.Errorf("%s has no type", f.Path)
			}
			if f.Default == "" {
				continue
			}
			var c schemaChecker
			if _, ok := c.checkValue(&schemaNode{field: f, each: &schemaNode{field: Field{Type: Any}}}, f.defaultValue(), "", false); !ok || len(c.violations.list) > 0 {
				t.Errorf("%s: the default %s is not allowed: %v", f.Path, f.Default, c.violations.list)
			}
		}
		for _, f := range fields {
			if f.Support == Refused && f.Why == "" && !hasRefusedParent(f.Path, seen) {
				t.Errorf("%s is refused without a reason", f.Path)
			}
		}
	}
}

func hasRefusedParent(path string, fields map[string]Field) bool {
	for {
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return false
		}
		path = path[:i]
		if f, ok := fields[path]; ok && f.Support == Refused && f.Why != "" {
			return true
		}
	}
}

// The Go types and the table have the same fields.
func TestTypesMatchFieldTable(t *testing.T) {
	var got []string
	typeFields(reflect.TypeFor[App](), "", &got)
	// The union types have their own encoders.
	got = append(got, "env.*.secret", "unreachableStrategy.inactiveAfterSeconds", "unreachableStrategy.expungeAfterSeconds")
	for _, f := range AppFields() {
		top := splitPath(f.Path)[0]
		_, answered := reflect.TypeFor[App]().FieldByNameFunc(func(name string) bool {
			field, _ := reflect.TypeFor[App]().FieldByName(name)
			return jsonName(field) == top
		})
		if strings.Contains(f.Path, ".options.") || !answered {
			if answered || f.Support != Honoured {
				continue // options are one map; fields that only answers have, or that were removed, are not stored
			}
		}
		if !slices.Contains(got, f.Path) {
			t.Errorf("App has no field for %s", f.Path)
		}
	}
	for _, path := range got {
		if !slices.ContainsFunc(AppFields(), func(f Field) bool { return f.Path == path }) {
			t.Errorf("App has %s, which the table has not", path)
		}
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func typeFields(typ reflect.Type, path string, got *[]string) {
	switch typ.Kind() {
	case reflect.Pointer:
		typeFields(typ.Elem(), path, got)
	case reflect.Slice:
		*got = append(*got, path+"[]")
		typeFields(typ.Elem(), path+"[]", got)
	case reflect.Map:
		if typ.Elem().Kind() != reflect.Interface {
			*got = append(*got, path+".*")
			typeFields(typ.Elem(), path+".*", got)
		}
	case reflect.Struct:
		for i := range typ.NumField() {
			if name := jsonName(typ.Field(i)); name != "" {
				below := strings.TrimPrefix(path+"."+name, ".")
				*got = append(*got, below)
				typeFields(typ.Field(i).Type, below, got)
			}
		}
	}
}

// The accepted options of docker run are those that the executor supports.
func TestParametersMatchExecutor(t *testing.T) {
	document, err := os.ReadFile(filepath.Join("..", "docs", "reference", "executor.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(document), "**Supported parameters:**")
	text, _, _ = strings.Cut(text, ", and docker run's short names")
	var served []string
	for depth, word := 0, ""; text != ""; text = text[1:] {
		switch c := text[0]; {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth > 0 || c == ' ' || c == '\n':
		case c == ',' || len(text) == 1:
			served, word = append(served, strings.TrimSuffix(word+text[:1], ",")), ""
		default:
			word += string(c)
		}
	}
	ours := slices.DeleteFunc(job.DockerOptions(), func(p string) bool { return p == "dns-option" }) // another name of dns-opt
	if slices.Sort(served); !slices.Equal(served, ours) {
		t.Errorf("docs/reference/executor.md serves %v, the table %v", served, ours)
	}
}
