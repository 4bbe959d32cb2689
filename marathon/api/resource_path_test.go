package api

import (
	"slices"
	"strings"
	"testing"

	"mesos-gpu/marathon"
)

func TestParseAppPath(t *testing.T) {
	for path, want := range map[string]resourcePath{
		"":                        {id: "/"},
		"/":                       {id: "/"},
		"a":                       {id: "/a"},
		"/a":                      {id: "/a"},
		"group/a":                 {id: "/group/a"},
		"//group//a/":             {id: "/group/a"},
		"group/a/restart":         {id: "/group/a", part: "restart"},
		"group/a/tasks":           {id: "/group/a", part: "tasks"},
		"group/a/tasks/t.1":       {id: "/group/a", part: "tasks", arg: "t.1"},
		"group/a/versions":        {id: "/group/a", part: "versions"},
		"group/a/versions/2026-1": {id: "/group/a", part: "versions", arg: "2026-1"},
		"*":                       {id: "/", group: true},
		"group/*":                 {id: "/group", group: true},
		"group/*/tasks":           {id: "/group", group: true, part: "tasks"},
		"a*":                      {id: "/a*"},
		"tasks":                   {id: "/tasks"}, // no app can have this id, but the client requests it
		"tasks/b":                 {id: "/tasks/b"},
		"a/tasks/b/versions/v":    {id: "/a/tasks/b", part: "versions", arg: "v"},
		"a/tasks/tasks":           {id: "/a/tasks", part: "tasks"},
		"a/restart/b":             {id: "/a/restart/b"},
	} {
		if got := parseAppPath(path); got != want {
			t.Errorf("appPlace(%q) = %+v, want %+v", path, got, want)
		}
	}
}

func TestParseGroupPath(t *testing.T) {
	for path, want := range map[string]resourcePath{
		"":               {id: "/"},
		"apps":           {id: "/", part: "apps"},
		"versions":       {id: "/", part: "versions"},
		"versions/v":     {id: "/", part: "versions", arg: "v"},
		"g/h":            {id: "/g/h"},
		"g/h/apps":       {id: "/g/h", part: "apps"},
		"g/h/versions":   {id: "/g/h", part: "versions"},
		"g/h/versions/v": {id: "/g/h", part: "versions", arg: "v"},
	} {
		if got := parseGroupPath(path); got != want {
			t.Errorf("groupPlace(%q) = %+v, want %+v", path, got, want)
		}
	}
}

func TestParseQueuePath(t *testing.T) {
	for path, want := range map[string]resourcePath{
		"":            {id: "/"},
		"delay":       {id: "/delay"},
		"g/a/delay":   {id: "/g/a", part: "delay"},
		"g/a/delay/b": {id: "/g/a/delay/b"},
	} {
		if got := parseQueuePath(path); got != want {
			t.Errorf("queuePlace(%q) = %+v, want %+v", path, got, want)
		}
	}
}

// Every parsed path leads back to the same path: no part is lost, and ids are absolute. Superfluous slashes and dots
// are ignored.
func FuzzPlaces(f *testing.F) {
	for _, seed := range []string{"", "*", "a/b", "a/tasks/b", "a/versions/", "g/*/tasks", "versions/v", "a/delay", "../a", "a/./b/restart", "a//b", "%2e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		for name, read := range map[string]func(string) resourcePath{"app": parseAppPath, "group": parseGroupPath, "queue": parseQueuePath} {
			p := read(path)
			if got := marathon.AbsoluteID(p.id, "/"); got != p.id {
				t.Fatalf("%s: the id %q of %q is not absolute: %q", name, p.id, path, got)
			}
			if p.arg != "" && p.part == "" {
				t.Fatalf("%s: %q has the argument %q of nothing", name, path, p.arg)
			}
			if hasDotSegment(path) {
				continue
			}
			back := splitSegments(p.id)
			for _, more := range []string{map[bool]string{true: "*"}[p.group], p.part, p.arg} {
				if more != "" {
					back = append(back, more)
				}
			}
			if !slices.Equal(back, splitSegments(path)) {
				t.Fatalf("%s: %q was read as %+v, which is %q", name, path, p, back)
			}
			if again := read(strings.Join(back, "/")); again != p {
				t.Fatalf("%s: %q was read as %+v, and that as %+v", name, path, p, again)
			}
		}
	})
}

func hasDotSegment(path string) bool {
	return slices.ContainsFunc(splitSegments(path), func(s string) bool { return s == "." || s == ".." })
}
