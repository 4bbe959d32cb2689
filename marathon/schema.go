package marathon

import (
	"encoding/json"
	"strings"
	"sync"
)

// node is one field and what is below it.
type node struct {
	field Field
	// members are an object's, by name; rest are those of a map.
	members map[string]*node
	rest    *node
	// each is an array's element.
	each *node
}

// The two tables as trees. Nobody changes them once they are built.
var (
	appSchema   = sync.OnceValue(func() *node { return tree(Fields()) })
	groupSchema = sync.OnceValue(func() *node {
		group := tree(GroupFields())
		group.members["apps"].each = appSchema()
		group.members["groups"].each = group.nested()
		return group
	})
)

// nested is the same schema for a group within a group, which needs an id.
func (n *node) nested() *node {
	inner := &node{field: n.field, members: map[string]*node{}}
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

// tree arranges fields by their paths; a parent precedes its children or not.
func tree(fields []Field) *node {
	root := &node{field: Field{Type: Object}}
	for _, f := range fields {
		n := root
		for _, step := range steps(f.Path) {
			n = n.child(step)
		}
		n.field = f
	}
	return root
}

// steps takes "a.b[].c" apart: a, b, [], c.
func steps(path string) []string {
	return strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".")
}

func (n *node) child(step string) *node {
	switch step {
	case "[]":
		if n.each == nil {
			n.each = &node{}
		}
		return n.each
	case "*":
		if n.rest == nil {
			n.rest = &node{}
		}
		return n.rest
	}
	if n.members == nil {
		n.members = map[string]*node{}
	}
	if n.members[step] == nil {
		n.members[step] = &node{}
	}
	return n.members[step]
}

// standard is the field's default as a value; nil is none.
func (f Field) standard() any {
	if f.Default == "" {
		return nil
	}
	v, err := decode([]byte(f.Default))
	if err != nil {
		return nil // a test reads each default
	}
	return v
}

// decode reads one JSON value, numbers as they are written.
func decode(data []byte) (any, error) {
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
