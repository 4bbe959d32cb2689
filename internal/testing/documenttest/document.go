// Package documenttest fills documents, and lists what their JSON contains.
package documenttest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Fill sets all exported fields of a value, recursively. Texts are those of their type in texts, or "x".
func Fill(v reflect.Value, texts map[reflect.Type]string) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000, 0).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				Fill(v.Field(i), texts)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		Fill(v.Elem(), texts)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		Fill(v.Index(0), texts)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		Fill(key, texts)
		Fill(value, texts)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
	case reflect.String:
		if v.SetString("x"); texts[v.Type()] != "" {
			v.SetString(texts[v.Type()])
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Uint8:
		v.SetUint(7)
	default:
		v.SetInt(7)
	}
}

// Filled returns a value with all fields set, as Fill sets them.
func Filled[T any](texts map[reflect.Type]string) (v T) {
	Fill(reflect.ValueOf(&v).Elem(), texts)
	return v
}

// ListKeys returns the paths of the values in a document's JSON, sorted, without those that are "" or null. An element of a list
// has the path of the list.
func ListKeys(t testing.TB, document any) (keys []string) {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				visit(strings.TrimPrefix(path+"."+key, "."), inner)
			}
		case []any:
			for _, inner := range v {
				visit(path, inner)
			}
		default:
			if v != nil && v != "" {
				keys = append(keys, path)
			}
		}
	}
	visit("", decoded)
	slices.Sort(keys)
	return slices.Compact(keys)
}
