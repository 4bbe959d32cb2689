package deploy

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"mesos-gpu/marathon"
)

func putGroup(s *observedState, now time.Time, id, text string) (Deployment, error) {
	g, err := marathon.ParseGroup([]byte(text), id, marathon.ParseSettings{Role: "*"})
	if err != nil {
		return Deployment{}, err
	}
	return s.PutGroup(now, id, g, ChangeOptions{Force: true})
}

func mustPutGroup(t *testing.T, s *observedState, now time.Time, id, text string) Deployment {
	t.Helper()
	d, err := putGroup(s, now, id, text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestGroupOfAnotherIDIsRejected checks that the group that the caller has authorized is the one that changes.
func TestGroupOfAnotherIDIsRejected(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/web n=1")
	var invalid *marathon.ValidationError
	if _, err := s.PutGroup(startTime(), "/prod", &marathon.Group{ID: "/", Apps: []*marathon.App{}}, ChangeOptions{Force: true}); !errors.As(err, &invalid) {
		t.Errorf("got %v for a group / that replaces /prod", err)
	}
}

// A group has the groups between it and its apps, and those that are defined without apps.
func TestGroupHasAllGroupsBelow(t *testing.T) {
	s := newEmptyState(t)
	if g, ok := s.Group("/"); !ok || formatGroup(g) != "/[]" {
		t.Errorf("the root of an empty state is %s, %t", formatGroup(g), ok)
	}
	putApps(t, s, startTime(), "/x/y/z/web n=1")
	putApps(t, s, startTime(), "/x/db n=2")
	putApps(t, s, startTime(), "/xy n=3")
	mustPutGroup(t, s, startTime(), "/empty", `{"dependencies": ["/x"]}`)
	for id, want := range map[string]string{
		"/":      "/[/xy×3] /empty[] after [/x] /x[/x/db×2] /x/y[] /x/y/z[/x/y/z/web×1]",
		"/x":     "/x[/x/db×2] /x/y[] /x/y/z[/x/y/z/web×1]",
		"/x/y":   "/x/y[] /x/y/z[/x/y/z/web×1]",
		"/empty": "/empty[] after [/x]",
	} {
		if g, ok := s.Group(id); !ok || formatGroup(g) != want {
			t.Errorf("%s: got %s, %t, want %s", id, formatGroup(g), ok, want)
		}
	}
	for _, id := range []string{"/xy", "/none", "/x/y/z/web"} {
		if g, ok := s.Group(id); ok {
			t.Errorf("%s is the group %s", id, formatGroup(g))
		}
	}
	if _, err := s.RemoveGroup(startTime(), "/empty", ChangeOptions{}); err != nil {
		t.Fatal(err)
	}
	if g, ok := s.Group("/empty"); ok {
		t.Errorf("a removed group is %s", formatGroup(g))
	}
}

// The version of a group is that of the last change of the group or of anything in it.
func TestVersionOfGroupIsThatOfLastChange(t *testing.T) {
	s := newEmptyState(t)
	version := func(id string) string {
		g, _ := s.Group(id)
		return g.Version
	}
	first := putApps(t, s, startTime(), "/x/web n=1").Version
	if version("/x") != first || version("/") != first {
		t.Errorf("versions are %s and %s, want %s", version("/x"), version("/"), first)
	}
	second := putApps(t, s, startTime().Add(time.Hour), "/x/y/z/db n=1").Version
	for _, id := range []string{"/", "/x", "/x/y", "/x/y/z"} {
		if got := version(id); got != second {
			t.Errorf("version of %s is %s, want %s", id, got, second)
		}
	}
	third := mustPutGroup(t, s, startTime().Add(2*time.Hour), "/x", `{"dependencies": ["/other"]}`).Version
	if version("/x") != third || version("/") != third || version("/x/y") != second {
		t.Errorf("versions are %s, %s and %s, want %s twice and %s", version("/x"), version("/"), version("/x/y"), third, second)
	}
}

// What a change of a group leaves out stays.
func TestGroupKeepsWhatChangeLeavesOut(t *testing.T) {
	s := newEmptyState(t)
	mustPutGroup(t, s, startTime(), "/g", `{"dependencies": ["/a"], "enforceRole": true}`)
	mustPutGroup(t, s, startTime(), "/g", `{"dependencies": ["/b"]}`)
	if g, _ := s.Group("/g"); !s.EnforcesRole("/g") || g.EnforceRole == nil || !*g.EnforceRole || formatGroup(g) != "/g[] after [/b]" {
		t.Errorf("got %s, enforces its role: %t", formatGroup(g), s.EnforcesRole("/g"))
	}
	mustPutGroup(t, s, startTime(), "/g", `{"enforceRole": false}`)
	if g, _ := s.Group("/g"); s.EnforcesRole("/g") || formatGroup(g) != "/g[] after [/b]" {
		t.Errorf("got %s, enforces its role: %t", formatGroup(g), s.EnforcesRole("/g"))
	}
	mustPutGroup(t, s, startTime(), "/h", `{}`)
	if s.EnforcesRole("/h") || s.EnforcesRole("/unknown") {
		t.Error("a group that does not say so enforces its role")
	}
}

// enforceRole of a group that exists does not change together with apps, at any depth.
func TestEnforceRoleChangesAlone(t *testing.T) {
	const apps = `"apps": [{"id": "web", "cmd": "x"}]`
	for _, c := range []struct{ name, id, text, path string }{
		{"with apps", "/g", `{"enforceRole": true, ` + apps + `}`, "/enforceRole"},
		{"with an empty list of apps", "/g", `{"enforceRole": true, "apps": []}`, "/enforceRole"},
		{"with apps of a group in it", "/g", `{"enforceRole": true, "groups": [{"id": "in", ` + apps + `}]}`, "/enforceRole"},
		{"in the root with apps", "/", `{"groups": [{"id": "g", "enforceRole": true, ` + apps + `}]}`, "/groups(0)/enforceRole"},
		{"in the root with apps of another group", "/", `{"groups": [{"id": "new", ` + apps + `}, {"id": "g", "enforceRole": true}]}`, "/groups(1)/enforceRole"},
		{"alone", "/g", `{"enforceRole": true}`, ""},
		{"alone in the root", "/", `{"groups": [{"id": "g", "enforceRole": true}]}`, ""},
		{"without a change", "/g", `{"enforceRole": false, ` + apps + `}`, ""},
		{"of a new group", "/new", `{"enforceRole": true, "apps": []}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newEmptyState(t)
			putApps(t, s, startTime(), "/g/web n=1")
			putApps(t, s, startTime(), "/g/in/web n=1")
			_, err := putGroup(s, startTime(), c.id, c.text)
			if (c.path == "") != (err == nil) {
				t.Fatalf("got %v", err)
			}
			if invalid := (*marathon.ValidationError)(nil); err != nil &&
				(!errors.As(err, &invalid) || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), "change it by a request of its own")) {
				t.Errorf("got %v, want a mistake at %s", err, c.path)
			}
		})
	}
}

// Scaling a group multiplies the instances of its apps and rounds up.
func TestScaleGroup(t *testing.T) {
	s := newEmptyState(t)
	for _, line := range []string{"/g/web n=3", "/g/in/db n=1", "/gone n=5"} {
		putApps(t, s, startTime(), line)
	}
	mustPutGroup(t, s, startTime(), "/g", `{"scaleBy": 1.5}`)
	if g, _ := s.Group("/"); formatGroup(g) != "/[/gone×5] /g[/g/web×5] /g/in[/g/in/db×2]" {
		t.Errorf("got %s", formatGroup(g))
	}
	many := float64(math.MaxInt32) / 5
	if _, err := s.PutGroup(startTime(), "/g", &marathon.Group{ScaleBy: &many}, ChangeOptions{Force: true}); err != nil {
		t.Errorf("the largest number: %v", err)
	}
	var invalid *marathon.ValidationError
	if _, err := putGroup(s, startTime(), "/g", `{"scaleBy": 1.1}`); !errors.As(err, &invalid) ||
		!strings.Contains(err.Error(), "times the 2147483647 instances of /g/web are too many") {
		t.Errorf("more than the largest number: %v", err)
	}
	wantNoGroup(t, s, "/none", `{"scaleBy": 2}`, `there is no group "/none"`)
}

func wantNoGroup(t *testing.T, s *observedState, id, text, want string) {
	t.Helper()
	var missing *NotFoundError
	if _, err := putGroup(s, startTime(), id, text); !errors.As(err, &missing) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A rollback of a group restores its apps as they were, and removes apps that are newer.
// Other apps stay.
func TestRollBackGroup(t *testing.T) {
	s := newEmptyState(t)
	putApps(t, s, startTime(), "/other n=1")
	first := putApps(t, s, startTime(), "/g/web n=1").Version
	for _, line := range []string{"/g/web n=4", "/g/new n=1", "/other n=7"} {
		if _, err := s.PutApps(startTime().Add(time.Hour), []*marathon.App{testApp(t, strings.Fields(line))}, ChangeOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	mustPutGroup(t, s, startTime().Add(2*time.Hour), "/g", `{"version": "`+first+`"}`)
	if g, _ := s.Group("/"); formatGroup(g) != "/[/other×7] /g[/g/web×1]" {
		t.Errorf("got %s", formatGroup(g))
	}
	var invalid *marathon.ValidationError
	if _, err := putGroup(s, startTime(), "/g", `{"version": "yesterday"}`); !errors.As(err, &invalid) ||
		!strings.Contains(err.Error(), `"yesterday" is no version`) {
		t.Errorf("a text that is no version: %v", err)
	}
	wantNoGroup(t, s, "/none", `{"version": "`+first+`"}`, `there is no group "/none"`)
	early, _ := ParseVersion("2001-01-01T00:00:00Z")
	wantNoGroup(t, s, "/g", `{"version": "`+early+`"}`, `there is no version of group /g "`+early+`"`)
}
