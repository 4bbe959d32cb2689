package apiserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// listBackend is a Backend whose lists a test changes between pages.
type listBackend struct {
	*fakeBackend
	agents    []api.AgentSummary
	roles     []api.RoleStatus
	schedules []api.ScheduleView
	continued bool
}

func (l *listBackend) ListAgents(_ context.Context, laterPage bool) ([]api.AgentSummary, error) {
	l.continued = laterPage
	return l.agents, nil
}
func (l *listBackend) ListRoles(context.Context) ([]api.RoleStatus, error) { return l.roles, nil }
func (l *listBackend) ListSchedules(context.Context) ([]api.ScheduleView, error) {
	return slices.Clone(l.schedules), nil
}
func (l *listBackend) GetJob(context.Context, string) (api.JobView, error) { return l.jobs[0], nil }
func (l *listBackend) GetSchedule(context.Context, *access.Grant, string) (api.ScheduleView, error) {
	return l.schedules[0], nil
}

func newListBackend() *listBackend {
	l := &listBackend{fakeBackend: &fakeBackend{}}
	for _, name := range []string{"*", "prod", "dev", "lab"} {
		l.roles = append(l.roles, api.RoleStatus{Name: name})
	}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		l.schedules = append(l.schedules, api.ScheduleView{Spec: job.Spec{Name: name}})
		l.agents = append(l.agents, api.AgentSummary{Hostname: "host-" + strings.Repeat("x", i/2), ID: "S" + name})
		for n := range 4 { // every second agent reports no UUIDs
			g := api.GPUView{Hostname: l.agents[i].Hostname, Agent: l.agents[i].ID, Model: fmt.Sprintf("%s-%d", name, n)}
			if i%2 == 0 {
				g.UUID = fmt.Sprintf("GPU-%s-%d", name, 9-n) // not sorted
			}
			l.gpus = append(l.gpus, g)
		}
	}
	return l
}

func serveLists(t *testing.T, l *listBackend) string {
	t.Helper()
	s := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(l) }, discardLogger()))
	t.Cleanup(s.Close)
	return s.URL
}

// readPage returns the names in one page of a list, and the cursor of the next page.
func readPage(t *testing.T, base, path string, limit int, after string) (names []string, next string) {
	t.Helper()
	query := url.Values{}
	if limit > 0 {
		query.Set("limit", fmt.Sprint(limit))
	}
	if after != "" {
		query.Set("after", after)
	}
	status, _, body := sendRequest(t, "GET", base+path+"?"+query.Encode(), "")
	if status != 200 {
		t.Fatalf("%s after %q: %d %s", path, after, status, body)
	}
	var list struct {
		Agents    []api.AgentSummary
		GPUs      []api.GPUView
		Roles     []api.RoleStatus
		Schedules []api.ScheduleView
		Next      string
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	for _, a := range list.Agents {
		names = append(names, a.ID)
	}
	for _, g := range list.GPUs {
		names = append(names, g.Model)
	}
	for _, r := range list.Roles {
		names = append(names, r.Name)
	}
	for _, s := range list.Schedules {
		names = append(names, s.Spec.Name)
	}
	return names, list.Next
}

// TestPagesCoverList checks that the pages of any size add up to the list.
func TestPagesCoverList(t *testing.T) {
	l := newListBackend()
	base := serveLists(t, l)
	for _, path := range []string{"/v1/agents", "/v1/gpus", "/v1/roles", "/v1/schedules"} {
		whole, next := readPage(t, base, path, 0, "")
		if len(whole) < 4 || next != "" {
			t.Fatalf("%s: %v, next %q", path, whole, next)
		}
		for _, limit := range []int{1, 2, 3, len(whole) - 1, len(whole), api.MaxPageLimit} {
			var got []string
			for after := ""; ; {
				page, next := readPage(t, base, path, limit, after)
				if len(page) == 0 || len(page) > limit {
					t.Fatalf("%s, limit %d, after %q: %v", path, limit, after, page)
				}
				got = append(got, page...)
				if after = next; after == "" {
					break
				}
			}
			if diff := gocmp.Diff(whole, got); diff != "" {
				t.Errorf("%s by %d (-whole +pages):\n%s", path, limit, diff)
			}
		}
		// Read the rest without a limit.
		_, next = readPage(t, base, path, 1, "")
		if rest, next := readPage(t, base, path, 0, next); !slices.Equal(rest, whole[1:]) || next != "" {
			t.Errorf("%s: the rest is %v, next %q", path, rest, next)
		}
	}
}

// TestListChangesBetweenPages checks that removing an entry between two pages does not
// affect other entries, even if it was the last one of a page.
func TestListChangesBetweenPages(t *testing.T) {
	for _, test := range []struct {
		path, first string
		limit       int
		change      func(l *listBackend)
		want        string
	}{
		{"/v1/agents", "Sa Sb", 2, func(l *listBackend) { l.agents = slices.Delete(l.agents, 0, 1) }, "Sc Sd Se"},
		{"/v1/agents", "Sa Sb", 2, func(l *listBackend) { l.agents = slices.Delete(l.agents, 1, 2) }, "Sc Sd Se"},
		{"/v1/agents", "Sa Sb", 2, func(l *listBackend) { l.agents = slices.Delete(l.agents, 0, 3) }, "Sd Se"},
		{"/v1/agents", "Sa Sb", 2, func(l *listBackend) { l.agents = slices.Insert(l.agents, 0, api.AgentSummary{Hostname: "", ID: "new"}) }, "Sc Sd Se"},
		{"/v1/agents", "Sa Sb", 2, func(l *listBackend) { l.agents = l.agents[:2] }, ""},
		{"/v1/schedules", "a b", 2, func(l *listBackend) { l.schedules = slices.Delete(l.schedules, 1, 3) }, "d e"},
		{"/v1/roles", "* prod", 2, func(l *listBackend) { l.roles = slices.Delete(l.roles, 0, 1) }, "dev lab"},
		// The entry of the cursor is gone and its position unknown: nothing is omitted.
		{"/v1/roles", "* prod", 2, func(l *listBackend) { l.roles = slices.Delete(l.roles, 1, 2) }, "* dev lab"},
		{"/v1/gpus", "a-0 a-1", 2, func(l *listBackend) { l.gpus = slices.Delete(l.gpus, 0, 1) }, "a-2 a-3 b-0 b-1 b-2 b-3"},
		{"/v1/gpus", "a-0 a-1", 2, func(l *listBackend) { l.gpus = slices.Delete(l.gpus, 1, 2) }, "a-0 a-2 a-3 b-0 b-1 b-2 b-3"},
		{"/v1/gpus", "a-0 a-1 a-2 a-3 b-0 b-1", 6, func(l *listBackend) { l.gpus = l.gpus[4:] }, "b-2 b-3"},
		{"/v1/gpus", "a-0 a-1 a-2 a-3 b-0 b-1", 6, func(l *listBackend) { l.gpus = slices.Delete(l.gpus, 4, 8) }, ""},
	} {
		l := newListBackend()
		l.gpus = l.gpus[:8]
		base := serveLists(t, l)
		first, next := readPage(t, base, test.path, test.limit, "")
		if l.continued {
			t.Error("the first page is marked as a continuation")
		}
		test.change(l)
		rest, _ := readPage(t, base, test.path, 0, next)
		if got := strings.Join(first, " "); got != test.first {
			t.Errorf("%s: first %q, want %q", test.path, got, test.first)
		}
		if got := strings.Join(rest, " "); got != test.want {
			t.Errorf("%s after %s: %q, want %q", test.path, test.first, got, test.want)
		}
		if test.path == "/v1/agents" && !l.continued {
			t.Error("the second page is not marked as a continuation")
		}
	}
}

// TestInvalidPageRequests checks invalid limits, and cursors that are invalid or of another
// list.
func TestInvalidPageRequests(t *testing.T) {
	base := serveLists(t, newListBackend())
	_, ofAgents := readPage(t, base, "/v1/agents", 1, "")
	short := base64.RawURLEncoding.EncodeToString([]byte(`["gpus"]`))
	null := base64.RawURLEncoding.EncodeToString([]byte(`null`))
	for _, path := range []string{"/v1/gpus", "/v1/roles", "/v1/schedules", "/v1/agents"} {
		for _, after := range []string{"x", "5", ofAgents + "A", ofAgents[1:], short, null, ofAgents} {
			if path == "/v1/agents" && after == ofAgents {
				continue
			}
			status, kind, body := sendRequest(t, "GET", base+path+"?after="+after, "")
			if want := fmt.Sprintf("after %q is not a place in the list: use the next of the page before", after); status != 400 ||
				kind != apihttp.ProblemMediaType || problemDetail(t, body) != want {
				t.Errorf("%s after %q: %d %s %s", path, after, status, kind, body)
			}
		}
	}
	for _, path := range []string{"/v1/jobs", "/v1/gpus", "/v1/roles", "/v1/schedules", "/v1/agents", "/v1/queue", "/v1/usage"} {
		for _, limit := range []string{"0", "-1", "x", "1.5", "10001", "99999999999999999999"} {
			status, kind, body := sendRequest(t, "GET", base+path+"?limit="+limit, "")
			if want := fmt.Sprintf("limit %q is not a number from 1 to 10000: leave it out for all", limit); status != 400 ||
				kind != apihttp.ProblemMediaType || problemDetail(t, body) != want {
				t.Errorf("%s, limit %s: %d %s %s", path, limit, status, kind, body)
			}
		}
	}
}

// TestPagesHideInvisibleEntries checks that pages and cursors contain only entries that the
// requester may see.
func TestPagesHideInvisibleEntries(t *testing.T) {
	l := newListBackend()
	l.roles = []api.RoleStatus{{Name: "prod"}, {Name: "research"}, {Name: "prod/web"}, {Name: "research/a"}}
	g := rolePolicy().GrantFor(access.Identity{Name: "viewer"})
	seen := filterVisible(g, l.roles, func(r *api.RoleStatus) string { return r.Name })
	page, next, err := request.CutPage("roles", 1, seen, api.PageRequest{Limit: 1}, roleSortKey)
	if err != nil || len(page) != 1 || page[0].Name != "research" {
		t.Fatalf("got %+v, %v", page, err)
	}
	if page, next, err = request.CutPage("roles", 1, seen, api.PageRequest{Limit: 5, After: next}, roleSortKey); err != nil ||
		len(page) != 1 || page[0].Name != "research/a" || next != "" {
		t.Errorf("got %+v, next %q, %v", page, next, err)
	}
}
