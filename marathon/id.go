package marathon

import (
	"regexp"
	"slices"
	"strings"
)

// segment is one part of an id.
var segment = regexp.MustCompile(`^([a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9])(\.([a-z0-9]|[a-z0-9][a-z0-9-]*[a-z0-9]))*$`)

// reserved words end the addresses of Marathon's interface, so no id may.
func reserved() []string { return []string{"restart", "tasks", "versions"} }

// segments are an id's parts. Slashes too many do not count.
func segments(id string) []string {
	return slices.DeleteFunc(strings.Split(id, "/"), func(s string) bool { return s == "" })
}

// Absolute resolves an id from the group base: "b" and "../a/b" in "/a" are
// both "/a/b". It does not check the parts.
func Absolute(id, base string) string {
	var path []string
	if !strings.HasPrefix(id, "/") {
		path = segments(base)
	}
	for _, s := range segments(id) {
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

// Parent is the group that holds the app or group of an absolute id; "/" is
// its own.
func Parent(id string) string { return Absolute("..", id) }

// identify makes the app's id and dependencies absolute.
func (f *finish) identify() {
	f.app.ID = f.resolve("/id", f.app.ID)
	if last := segments(f.app.ID); len(last) == 0 {
		f.bad("/id", "the id names no app: write it as /group/name")
	} else if slices.Contains(reserved(), last[len(last)-1]) {
		f.bad("/id", "an id does not end with %s", strings.Join(reserved(), ", "))
	}
	for i, d := range f.app.Dependencies {
		f.app.Dependencies[i] = f.resolve(index("/dependencies", i), d)
	}
}

// resolve makes an id absolute and checks its parts.
func (f *finish) resolve(place, id string) string {
	id = Absolute(id, f.base)
	for _, s := range segments(id) {
		if !segment.MatchString(s) {
			f.bad(place, "%q in %s: the parts of an id have lower-case letters, digits, and dashes and dots between them", s, id)
		}
	}
	return id
}
