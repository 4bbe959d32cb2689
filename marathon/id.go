package marathon

import (
	"regexp"
	"slices"
	"strings"
)

// segmentPattern matches one segment of an id.
var segmentPattern = regexp.MustCompile(`^([a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9])(\.([a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9]))*$`)

// reservedSegments end paths of Marathon's API. An id may not end with one of them.
func reservedSegments() []string { return []string{"restart", "tasks", "versions"} }

// pathSegments returns the segments of an id. Superfluous slashes are ignored.
func pathSegments(id string) []string {
	return slices.DeleteFunc(strings.Split(id, "/"), func(s string) bool { return s == "" })
}

// AbsoluteID resolves an id relative to the group base: in "/a", "b" and "../a/b" both
// become "/a/b". It does not check the segments.
func AbsoluteID(id, base string) string {
	var path []string
	if !strings.HasPrefix(id, "/") {
		path = pathSegments(base)
	}
	for _, s := range pathSegments(id) {
		switch s {
		case ".":
		case "..":
			path = path[:max(0, len(path)-1)]
		default:
			path = append(path, s)
		}
	}
	return "/" + strings.Join(path, "/")
}

// ReadID returns the id of a definition, resolved from the group base. It reads the id as
// ParseApp and ParseGroup do, which distinguish "id" from "ID". Without an id it returns base;
// the parsers report mistakes.
func ReadID(data []byte, base string) string {
	v, _ := decodeJSON(data)
	fields, _ := v.(map[string]any)
	id, _ := fields["id"].(string)
	return AbsoluteID(id, base)
}

// ParentID returns the group of an app or group with an absolute id. The parent of "/" is
// "/".
func ParentID(id string) string { return AbsoluteID("..", id) }

// resolveIDs makes the app's id and dependencies absolute.
func (norm *appNormalizer) resolveIDs() {
	norm.app.ID = norm.resolveID("/id", norm.app.ID)
	if last := pathSegments(norm.app.ID); len(last) == 0 {
		norm.addError("/id", "the id names no app: write it as /group/name")
	} else if slices.Contains(reservedSegments(), last[len(last)-1]) {
		norm.addError("/id", "an id does not end with %s", strings.Join(reservedSegments(), ", "))
	}
	for i, d := range norm.app.Dependencies {
		norm.app.Dependencies[i] = norm.resolveID(elementPath("/dependencies", i), d)
	}
}

// resolveID makes an id absolute and checks its parts.
func (norm *appNormalizer) resolveID(place, id string) string {
	id = AbsoluteID(id, norm.base)
	for _, s := range pathSegments(id) {
		if !segmentPattern.MatchString(s) {
			norm.addError(place, "%q in %s: the parts of an id have lower-case letters, digits, and dashes and dots between them", s, id)
		}
	}
	return id
}
