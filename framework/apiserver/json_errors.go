package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/job/editdistance"
)

// describeJSONError rewrites an error of encoding/json in terms of the API.
func describeJSONError(err error, into any) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s needs %s, not %s", cmp.Or(e.Field, "the body"), expectedKind(e.Type), actualKind(e.Value))
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("this is not JSON, at byte %d: %w", e.Offset, err)
	}
	quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	key, bad := strconv.Unquote(quoted)
	if !ok || bad != nil {
		return err
	}
	return fmt.Errorf("unknown field %q%s", key, suggestField(key, into))
}

// expectedKind names the JSON type that a Go type requires.
func expectedKind(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a whole number of nanoseconds"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a whole number"
	}
}

// actualKind names the JSON type of the body's value, from encoding/json's description.
func actualKind(value string) string {
	switch value {
	case "string":
		return "text"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	case "number":
		return "a number"
	}
	return value // such as "number 1.5"
}

// suggestField returns the path of the most similar key, or "" if none is similar.
func suggestField(key string, into any) string {
	names, paths := fieldNames(reflect.TypeOf(into))
	best := editdistance.Nearest(key, names)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", paths[best])
}

// fieldNames returns the keys of a type and its nested types, outermost first, and the
// first path of each.
func fieldNames(root reflect.Type) (names []string, paths map[string]string) {
	type place struct {
		t    reflect.Type
		path string
	}
	paths = map[string]string{}
	seen := map[reflect.Type]bool{}
	for queue := []place{{root, ""}}; len(queue) > 0; queue = queue[1:] {
		t, path := queue[0].t, queue[0].path
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			continue
		}
		seen[t] = true
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			if _, ok := paths[name]; !ok {
				names, paths[name] = append(names, name), path+name
			}
			queue = append(queue, place{field.Type, path + name + "."})
		}
	}
	return names, paths
}
