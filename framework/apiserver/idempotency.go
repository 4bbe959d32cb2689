package apiserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// maxIdempotencyKey limits a key, in bytes.
const maxIdempotencyKey = 255

// readSubmission reads a job and the idempotency key of the request.
func readSubmission(w http.ResponseWriter, r *http.Request) (spec job.Spec, err error) {
	key, err := readClientKey(r)
	if err != nil {
		return spec, err
	}
	spec, body, err := readSpec(w, r)
	spec.ClientKey = nil // only the header sets the key
	if err != nil || key == "" {
		return spec, err
	}
	parse := canonicalJSON
	if isJobFile(r) {
		parse = canonicalYAML
	}
	digest, err := bodyDigest(body, parse)
	if err != nil {
		return spec, api.NewProblemf(http.StatusBadRequest, "parse body: %v", err)
	}
	spec.ClientKey = &job.ClientKey{Key: key, Digest: digest}
	return spec, nil
}

// readClientKey returns the idempotency key, or "" if the request has none.
func readClientKey(r *http.Request) (string, error) {
	keys := r.Header.Values(api.IdempotencyKey)
	if len(keys) == 0 {
		return "", nil
	}
	if key := keys[0]; len(keys) > 1 || !isPrintableASCII(key) || len(key) == 0 || len(key) > maxIdempotencyKey {
		return "", api.NewProblemf(http.StatusBadRequest, "%s: use one key of 1 to %d printable ASCII characters", api.IdempotencyKey, maxIdempotencyKey)
	}
	return keys[0], nil
}

func isPrintableASCII(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

// bodyDigest returns a digest of the canonical form of a body. Bodies with the same
// content have the same digest: the order of keys and whitespace do not matter, except
// for duplicate keys. The digest covers the body and not the resulting Spec, so that it
// does not change when a newer scheduler has other defaults. parse returns the canonical form.
func bodyDigest(body []byte, parse func([]byte) (any, error)) (string, error) {
	value, err := parse(body)
	if err != nil {
		return "", fmt.Errorf("compute its digest: %w", err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("compute its digest: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// canonicalJSON returns the canonical form of a body in JSON. Numbers keep their text.
func canonicalJSON(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return readCanonicalValue(d)
}

// readCanonicalValue reads the next value. encoding/json treats keys that differ only in
// case as duplicates, and its result then depends on their order. The canonical form
// keeps that order.
func readCanonicalValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if _, composite := t.(json.Delim); !composite {
		return t, nil
	}
	elements := []any{} // for an object, keys and values in turn
	for d.More() {
		one, err := readCanonicalValue(d)
		if err != nil {
			return nil, err
		}
		elements = append(elements, one)
	}
	if _, err = d.Token(); err == nil && t == json.Delim('{') {
		return canonicalObject(elements), nil
	}
	return elements, err
}

// canonicalObject returns a map of keys and values in turn, or the ordered list if there are duplicate keys.
func canonicalObject(elements []any) any {
	pairs, seen := make(map[string]any, len(elements)/2), make(map[string]bool, len(elements)/2)
	for i := 0; i+1 < len(elements); i += 2 {
		key, _ := elements[i].(string)
		pairs[key], seen[strings.Map(foldCase, key)] = elements[i+1], true
	}
	if 2*len(seen) < len(elements) {
		return elements
	}
	return pairs
}

// foldCase returns the smallest rune that equals c under case folding, as encoding/json
// compares keys.
func foldCase(c rune) rune {
	for {
		next := unicode.SimpleFold(c)
		if next <= c {
			return next
		}
		c = next
	}
}

// canonicalYAML returns the canonical form of a job file.
func canonicalYAML(body []byte) (any, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(body, &n); err != nil {
		return nil, err
	}
	return canonicalNode(&n, false), nil
}

// orderedKey is the mapping whose order matters: it determines the task indexes.
const orderedKey = "matrix"

// canonicalNode returns scalars as text with their type, as the parser of job files sees
// them: a quoted number differs from a number. It drops comments and styles.
func canonicalNode(n *yaml.Node, ordered bool) any {
	switch n.Kind {
	case yaml.MappingNode:
		pairs := make(map[string]any, len(n.Content)/2)
		var order []string
		for i := 1; i < len(n.Content); i += 2 {
			key := n.Content[i-1].Value
			pairs[key], order = canonicalNode(n.Content[i], key == orderedKey), append(order, key)
		}
		if ordered {
			return []any{order, pairs}
		}
		return pairs
	case yaml.DocumentNode, yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = canonicalNode(item, false)
		}
		return list
	default:
		return n.ShortTag() + " " + n.Value
	}
}
