package marathon

import (
	"slices"
	"strings"
	"testing"
)

func parseGroup(t *testing.T, text, base string) *Group {
	t.Helper()
	g, err := ParseGroup([]byte(text), base, testSettings())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func groupOrder(g *Group) string {
	var ids []string
	for _, a := range g.OrderedApps() {
		ids = append(ids, a.ID)
	}
	return strings.Join(ids, " ")
}

// Ids and dependencies are relative to the group that contains them. All apps of a group have the dependencies of the
// group.
func TestGroupPathsAreRelative(t *testing.T) {
	g := parseGroup(t, `{
		"id": "shop",
		"apps": [{"id": "web", "cmd": "a", "dependencies": ["back/api", "../cache"]}],
		"groups": [
			{"id": "back", "dependencies": ["../data"], "apps": [{"id": "api", "cmd": "a"}, {"id": "/shop/back/jobs", "cmd": "a", "dependencies": ["api"]}]},
			{"id": "data", "groups": [{"id": "/shop/data/sql", "apps": [{"id": "one", "cmd": "a"}, {"id": "two", "cmd": "a", "dependencies": ["./one"]}]}]}
		]}`, "/")
	if got, want := groupOrder(g), "/shop/data/sql/one /shop/data/sql/two /shop/back/api /shop/web /shop/back/jobs"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := g.Apps[0].Dependencies, []string{"/shop/back/api", "/cache"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	first := encodeJSON(t, g)
	if second := encodeJSON(t, parseGroup(t, string(first), "/")); string(first) != string(second) {
		t.Errorf("written and read again:\n%s\n%s", first, second)
	}
}

// A group without an id gets the id of the request.
func TestGroupWithoutID(t *testing.T) {
	const text = `{"apps": [{"id": "a", "cmd": "b"}]}`
	for base, want := range map[string]string{"/": "/a", "/x/y": "/x/y/a"} {
		if got := groupOrder(parseGroup(t, text, base)); got != want {
			t.Errorf("in %s: got %s, want %s", base, got, want)
		}
	}
}

// A top group that enforces its role determines the role of its apps.
func TestEnforcedRole(t *testing.T) {
	g := parseGroup(t, `{"id": "/prod", "enforceRole": true, "groups": [{"id": "x", "apps": [{"id": "a", "cmd": "b"}]}]}`, "/")
	if got := g.OrderedApps()[0].Role; got != "prod" {
		t.Errorf("got role %s, want prod", got)
	}
	if got := parseGroup(t, `{"id": "/prod", "enforceRole": false, "apps": [{"id": "a", "cmd": "b"}]}`, "/").Apps[0].Role; got != "web" {
		t.Errorf("got role %s, want web", got)
	}
}

// A group that is a command has no other fields.
func TestGroupCommands(t *testing.T) {
	if g := parseGroup(t, `{"scaleBy": 2}`, "/x"); *g.ScaleBy != 2 || len(g.OrderedApps()) != 0 {
		t.Errorf("got %+v", g)
	}
	if g := parseGroup(t, `{"version": "2020-01-01T00:00:00.000Z"}`, "/x"); g.Version == "" {
		t.Errorf("got %+v", g)
	}
}

func TestGroupRules(t *testing.T) {
	const app = `{"id": "a", "cmd": "b"}`
	for _, test := range []struct{ group, path, text string }{
		{`{"id": "/g", "apps": [{"id": "a", "cmd": "b", "dependencies": ["c"]}, {"id": "c", "cmd": "b", "dependencies": ["a"]}]}`, "/", "/g/a → /g/c → /g/a"},
		{`{"id": "/g", "apps": [{"id": "a", "cmd": "b", "dependencies": ["/g"]}]}`, "/", "/g/a → /g/a"},
		{`{"id": "/g", "groups": [{"id": "x", "dependencies": ["../y"], "apps": [` + app + `]}, {"id": "y", "dependencies": ["../x"], "apps": [` + app + `]}]}`,
			"/", "/g/x/a → /g/y/a → /g/x/a"},
		{`{"id": "/g", "apps": [` + app + `, ` + app + `]}`, "/apps(1)/id", "the id of /apps(0) too"},
		{`{"id": "/g", "apps": [` + app + `], "groups": [{"id": "a"}]}`, "/groups(0)/id", "the id of /apps(0) too"},
		{`{"id": "/g", "apps": [{"id": "x/a", "cmd": "b"}]}`, "/apps(0)/id", "not directly in the group /g"},
		{`{"id": "/g", "groups": [{"id": "/h"}]}`, "/groups(0)/id", "not directly in the group /g"},
		{`{"id": "/g", "groups": [{"apps": []}]}`, "/groups(0)/id", "needed"},
		{`{"id": "/G"}`, "/id", "lower-case"},
		{`{"id": "/g", "dependencies": ["H"]}`, "/dependencies(0)", "lower-case"},
		{`{"id": "/g", "groups": [{"id": "x", "apps": [{"id": "a", "cmd": "b", "cpus": 0}]}]}`, "/groups(0)/apps(0)/cpus", "less than"},
		{`{"id": "/g", "apps": [{"id": "a"}]}`, "/apps(0)", "nothing to run"},
		{`{"id": "/g", "apps": [` + app + `, 7]}`, "/apps(1)", "an object"},
		{`{"id": "/g", "pods": [{"id": "p"}]}`, "/pods", "one executor runs one task"},
		{`{"id": "/g", "app": []}`, "/app", "did you mean apps?"},
		{`{"id": "/g", "groups": [{"id": "h", "enforceRole": true}]}`, "/groups(0)/enforceRole", "not a top group"},
		{`{"id": "/g", "enforceRole": true, "apps": [{"id": "a", "cmd": "b", "role": "web"}]}`, "/apps(0)/role", "not one of the roles allowed here: g"},
		{`{"id": "/g", "scaleBy": 2}`, "/scaleBy", "stands alone"},
		{`{"scaleBy": 2, "version": "v"}`, "/", "one of them at a time"},
		{`{"scaleBy": -1}`, "/scaleBy", "less than 0"},
		{`{"id": "/g", "groups": [{"id": "h", "scaleBy": 2}]}`, "/groups(0)/scaleBy", "stands alone"},
	} {
		_, err := ParseGroup([]byte(test.group), "/", testSettings())
		if got := errorDetails(t, err); !strings.Contains(got[test.path], test.text) || got[test.path] == "" {
			t.Errorf("%s\ngot %q, want %q at %s", test.group, got, test.text, test.path)
		}
	}
}

func TestAbsolute(t *testing.T) {
	for _, test := range []struct{ id, base, want string }{
		{"a", "/", "/a"},
		{"a/b", "/x", "/x/a/b"},
		{"/a", "/x", "/a"},
		{"../a", "/x/y", "/x/a"},
		{"../../../a", "/x", "/a"},
		{"./a/./b/..", "/x", "/x/a"},
		{"", "/x", "/x"},
		{"//a//b/", "/x", "/a/b"},
	} {
		if got := AbsoluteID(test.id, test.base); got != test.want {
			t.Errorf("%q in %s: got %s, want %s", test.id, test.base, got, test.want)
		}
	}
	for id, want := range map[string]string{"/": "/", "/a": "/", "/a/b": "/a"} {
		if got := ParentID(id); got != want {
			t.Errorf("above %s: got %s, want %s", id, got, want)
		}
	}
}
