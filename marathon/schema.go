package marathon

import (
	"encoding/json"
	"strings"
	"sync"
)

// schemaNode is a field with the fields inside it.
type schemaNode struct {
	field Field
	// members are the fields of an object by name. rest describes the values of a
	// map.
	members map[string]*schemaNode
	rest    *schemaNode
	// each describes the elements of an array.
	each *schemaNode
}

// The two tables as trees. They do not change once they are built.
var (
	appSchema   = sync.OnceValue(func() *schemaNode { return buildSchema(AppFields()) })
	groupSchema = sync.OnceValue(func() *schemaNode {
		group := buildSchema(GroupFields())
		group.members["apps"].each = appSchema()
		group.members["groups"].each = group.nestedGroupSchema()
		return group
	})
)

// nestedGroupSchema returns the schema of a group within a group, which needs an id.
func (n *schemaNode) nestedGroupSchema() *schemaNode {
	inner := &schemaNode{field: n.field, members: map[string]*schemaNode{}}
	for name, m := range n.members {
		inner.members[name] = m
	}
	id := *inner.members["id"]
	id.field.Required = true
	inner.members["id"] = &id
	groups := *inner.members["groups"]
	groups.each = inner
	inner.members["groups"] = &groups
	apps := *inner.members["apps"]
	apps.each = appSchema()
	inner.members["apps"] = &apps
	return inner
}

// buildSchema arranges fields by their paths, in any order.
func buildSchema(fields []Field) *schemaNode {
	root := &schemaNode{field: Field{Type: Object}}
	for _, f := range fields {
		n := root
		for _, step := range splitPath(f.Path) {
			n = n.childNode(step)
		}
		n.field = f
	}
	return root
}

// splitPath splits "a.b[].c" into a, b, [] and c.
func splitPath(path string) []string {
	return strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".")
}

func (n *schemaNode) childNode(step string) *schemaNode {
	switch step {
	case "[]":
		if n.each == nil {
			n.each = &schemaNode{}
		}
		return n.each
	case "*":
		if n.rest == nil {
			n.rest = &schemaNode{}
		}
		return n.rest
	}
	if n.members == nil {
		n.members = map[string]*schemaNode{}
	}
	if n.members[step] == nil {
		n.members[step] = &schemaNode{}
	}
	return n.members[step]
}

// defaultValue returns the field's default as a value, or nil.
func (f Field) defaultValue() any {
	if f.Default == "" {
		return nil
	}
	v, err := decodeJSON([]byte(f.Default))
	if err != nil {
		return nil // a test parses each default
	}
	return v
}

// decodeJSON decodes one JSON value and keeps the notation of numbers.
func decodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err == nil || d.More() {
		return nil, errTrailing
	}
	return v, nil
}
