package jobfile

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Changes contains a user's changes of job files that are made without editing them.
type Changes struct {
	// Variables are the values of the variables in templates, by name.
	Variables map[string]string
	// Defaults are values of keys that the file does not have; nil for none.
	Defaults *Defaults
	// Overrides replace values of the file, in this order.
	Overrides []Override

	// used are the variables that the files read so far have, with or without a value.
	used map[string]bool
}

// UnusedVariables returns the variables that no file had which was read with c.
func (c *Changes) UnusedVariables() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Variables)), func(name string) bool { return c.used[name] })
}

// variableInText matches a variable in a value, with the backslashes before it, which make it plain text.
var variableInText = regexp.MustCompile(`(\\*)\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}`)

// variableName matches the whole name of a variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseVariable parses NAME=value.
func ParseVariable(text string) (name, value string, err error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || !variableName.MatchString(name) {
		return "", "", fmt.Errorf("%q: write NAME=value, with a NAME of letters, digits and underscores", text)
	}
	return name, value, nil
}

// escapeVariables returns text that fillValues turns back into the given one.
func escapeVariables(text string) string {
	return variableInText.ReplaceAllString(text, `\$0`)
}

// fillValues replaces the variables in all values of a file. Only texts are replaced, so a variable cannot add keys.
func (c *Changes) fillValues(n *yaml.Node) error {
	switch n.Kind {
	case yaml.ScalarNode:
		return c.fillText(n)
	case yaml.SequenceNode:
		var errs []error
		for _, item := range n.Content {
			errs = append(errs, c.fillValues(item))
		}
		return errors.Join(errs...)
	case yaml.MappingNode:
		if len(n.Content) == 2 && n.Content[0].Kind == yaml.MappingNode { // {{name}} is a mapping in YAML
			return errorAt(n, `write a value that begins with a variable in quotes: "{{name}}"`)
		}
		var errs []error
		for i := 1; i < len(n.Content); i += 2 {
			errs = append(errs, c.fillValues(n.Content[i]))
		}
		return errors.Join(errs...)
	}
	return nil
}

// fillText replaces the variables in one value. The values of variables are not searched for others.
func (c *Changes) fillText(n *yaml.Node) error {
	var errs []error
	whole := false
	text := variableInText.ReplaceAllStringFunc(n.Value, func(found string) string {
		m := variableInText.FindStringSubmatch(found)
		if m[1] != "" {
			return found[1:]
		}
		value, ok := c.Variables[m[2]]
		if !ok {
			errs = append(errs, errorAt(n, `variable %s has no value: give one by --var %s=VALUE, or write \{{%s}} for this text itself`, m[2], m[2], m[2]))
		}
		if c.used == nil {
			c.used = map[string]bool{}
		}
		c.used[m[2]], whole = true, found == n.Value
		return value
	})
	n.Value = text
	if whole {
		n.Tag, n.Style = "", 0 // a number, true or false as if it were written in the file
	}
	return errors.Join(errs...)
}

// Override sets one key of a job file.
type Override struct {
	key, subkey string // subkey is "" for the whole value of the key
	// value is nil if the key is removed from the file.
	value *yaml.Node
}

// ParseOverride parses KEY=VALUE or KEY.SUBKEY=VALUE, such as share.memory=4GiB, with a value in YAML. An empty VALUE
// removes the key from the file.
func ParseOverride(text string) (Override, error) {
	path, value, ok := strings.Cut(text, "=")
	o := overrideAt(path, nil)
	if !ok || o.key == "" || strings.HasSuffix(path, ".") {
		return o, fmt.Errorf("%q: write KEY=VALUE or KEY.SUBKEY=VALUE, or KEY= to remove it", text)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(value), &doc); err != nil {
		return o, fmt.Errorf("%q: %s", text, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(doc.Content) > 0 {
		o.value = doc.Content[0]
		clearPlaces(o.value)
	}
	return o, nil
}

// OverrideText sets a key, or KEY.SUBKEY, to a text.
func OverrideText(path, text string) Override {
	return overrideAt(path, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text})
}

// OverrideWords sets a key to a list of words.
func OverrideWords(path string, words []string) Override {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, word := range words {
		list.Content = append(list.Content, wordNode(word)) // not escaped: overrides have no variables
	}
	return overrideAt(path, list)
}

// overrideAt splits a path at its first dot: names of variables and labels may contain others.
func overrideAt(path string, value *yaml.Node) Override {
	key, subkey, _ := strings.Cut(path, ".")
	return Override{key, subkey, value}
}

// clearPlaces removes the lines of a value that is not in the file.
func clearPlaces(n *yaml.Node) {
	n.Line, n.Column = 0, 0
	for _, inner := range n.Content {
		clearPlaces(inner)
	}
}

// apply changes the mapping of a file.
func (o *Override) apply(root *yaml.Node) error {
	if o.subkey == "" {
		setKey(root, o.key, o.value)
		return nil
	}
	inner := findValue(root, o.key)
	switch {
	case inner == nil && o.value == nil:
		return nil
	case inner == nil:
		inner = &yaml.Node{Kind: yaml.MappingNode}
		setKey(root, o.key, inner)
	case inner.Kind != yaml.MappingNode:
		return errorAt(inner, "%s has no keys in this file, so that %s.%s cannot be set: set %s", o.key, o.key, o.subkey, o.key)
	}
	setKey(inner, o.subkey, o.value)
	return nil
}

// setKey sets a key of a mapping, or removes it if value is nil.
func setKey(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != key {
			continue
		}
		if value == nil {
			n.Content = slices.Delete(n.Content, i, i+2)
		} else {
			n.Content[i+1] = value
		}
		return
	}
	if value != nil {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
}
