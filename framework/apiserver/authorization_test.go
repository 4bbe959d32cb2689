package apiserver

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/job"
)

// serveWithPolicy serves a backend to the user that a test names in the header Who.
func serveWithPolicy[B interface {
	allReads
	allCommands
}](t *testing.T, f B, p *access.AccessPolicy) string {
	t.Helper()
	h := NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := access.Identity{Name: r.Header.Get("Who")}
		h.ServeHTTP(w, r.WithContext(apihttp.WithGrant(r.Context(), p.GrantFor(who))))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// rolePolicy grants each of four users a different permission on research, and root all
// permissions on all roles.
func rolePolicy() *access.AccessPolicy {
	rule := func(p access.Permission, role string, users ...string) access.PermissionRule {
		return access.PermissionRule{Permission: p, Roles: []string{role}, Users: users}
	}
	return &access.AccessPolicy{Rules: []access.PermissionRule{
		rule(access.View, "research", "viewer"), rule(access.Submit, "research", "submitter", "owner"),
		rule(access.Operate, "research", "operator"), rule(access.Operate, "prod", "stranger"), rule(access.Admin, "/", "root"),
	}}
}

// TestAccessRules checks each request by each kind of user. A request without a rule is
// permitted only to a user with all permissions.
func TestAccessRules(t *testing.T) {
	users := []string{"", "stranger", "viewer", "submitter", "owner", "operator", "root"}
	for _, c := range []struct{ method, path, body, want string }{
		//                                                         "" str vie sub own ope root
		{"GET", "/healthz", "", "200 200 200 200 200 200 200"},
		{"GET", "/metrics", "", "401 200 200 200 200 200 200"},
		{"GET", "/metrics/prometheus", "", "401 200 200 200 200 200 200"},
		{"GET", "/v1/jobs", "", "401 200 200 200 200 200 200"},
		{"POST", "/v1/jobs", `{"name":"x","command":["true"]}`, "401 201 403 201 201 201 201"},     // the backend determines the role
		{"POST", "/v1/validate", `{"name":"x","command":["true"]}`, "401 200 403 200 200 200 200"}, // likewise
		{"GET", "/v1/whoami", "", "200 200 200 200 200 200 200"},
		{"POST", "/v1/sign-in", `{"code":"c","code_verifier":"v","redirect_uri":"https://s1/"}`, "404 404 404 404 404 404 404"}, // no issuer
		{"GET", "/v1/workdirs/sha256:0", "", "401 200 403 200 200 200 200"},
		{"PUT", "/v1/workdirs/sha256:0", "x", "401 201 403 201 201 201 201"},
		{"GET", "/v1/jobs/train/runs/1/workdir/token/workdir.tar.gz", "", "200 200 200 200 200 200 200"}, // agents have only the token
		{"GET", "/v1/jobs/train/runs/1/workdir/wrong/workdir.tar.gz", "", "404 404 404 404 404 404 404"},
		{"GET", "/v1/jobs/train", "", "401 404 200 200 200 200 200"},
		{"GET", "/v1/jobs/train/file", "", "401 404 200 200 200 200 200"},
		{"GET", "/v1/jobs/train/artifacts", "", "401 404 200 200 200 200 200"},
		{"DELETE", "/v1/jobs/train", "", "401 404 403 403 202 202 202"},
		{"PUT", "/v1/jobs/train", `{"name":"train","command":["true"],"service":{}}`, "401 404 403 403 200 200 200"},
		{"POST", "/v1/jobs/train/validate", `{"name":"train","command":["true"],"service":{}}`, "401 404 403 403 200 200 200"},
		{"PATCH", "/v1/jobs/train", `{"priority":1}`, "401 404 403 403 200 200 200"}, // the backend also checks a new role
		{"POST", "/v1/jobs/train/rerun", `{}`, "401 404 403 201 201 201 201"},        // the backend also checks the owner
		{"PUT", "/v1/jobs/train/hold", `{}`, "401 404 403 403 202 202 202"},          // the backend also checks who holds it
		{"DELETE", "/v1/jobs/train/hold", "", "401 404 403 403 202 202 202"},
		{"POST", "/v1/jobs/train/requeue", `{}`, "401 404 403 403 202 202 202"},
		{"PUT", "/v1/roles/research/hold", `{}`, "401 403 403 403 403 202 202"},
		{"DELETE", "/v1/roles/research/hold", "", "401 403 403 403 403 202 202"},
		{"PUT", "/v1/users/owner/hold", `{}`, "401 403 403 403 202 403 202"}, // a user's jobs may be in all roles
		{"DELETE", "/v1/users/owner/hold", "", "401 403 403 403 202 403 202"},
		{"GET", "/v1/holds", "", "401 200 200 200 200 200 200"},
		{"GET", "/v1/notifications", "", "401 200 200 200 200 200 200"},
		{"POST", "/v1/notifications/n1/retry", "", "401 404 403 403 202 202 202"},
		{"DELETE", "/v1/notifications/n1", "", "401 404 403 403 202 202 202"},
		{"POST", "/v1/jobs/train/scale", `{"tasks":1}`, "401 404 403 403 202 202 202"},
		{"GET", "/v1/jobs/train/tasks/0/exec?argv=ls", "", "401 404 403 403 426 426 426"},
		{"GET", "/v1/jobs/train/tasks/0/port-forward", "", "401 404 403 403 409 409 409"},
		{"GET", "/v1/jobs/train/tasks/0/attach", "", "401 404 403 403 409 409 409"},
		{"POST", "/v1/tasks/train.0/stop", `{}`, "401 404 403 403 202 202 202"},
		{"GET", "/v1/tasks/train.0/log", "", "401 404 200 200 200 200 200"},
		{"GET", "/v1/tasks/train.0/files", "", "401 404 200 200 200 200 200"},
		{"GET", "/v1/tasks/train.0/file?path=model", "", "401 404 200 200 200 200 200"},
		{"PUT", "/v1/tasks/train.0/file?path=x", "x", "401 404 403 403 409 409 409"}, // it has ended
		{"PUT", "/v1/tasks/train.0/files?path=x", "x", "401 404 403 403 409 409 409"},
		{"GET", "/v1/agents", "", "401 200 200 200 200 200 200"},
		{"GET", "/v1/gpus", "", "401 200 200 200 200 200 200"},
		{"GET", "/v1/events", "", "401 200 200 200 200 200 200"},
		{"GET", "/v1/events?job=train", "", "401 404 200 200 200 200 200"},
		{"GET", "/v1/usage", "", "401 200 200 200 200 200 200"},
		{"GET", "/v1/usage?job=train", "", "401 404 200 200 200 200 200"},
		{"GET", "/v1/jobs/none", "", "401 404 404 404 404 404 404"},
		{"GET", "/nothing", "", "404 404 404 404 404 404 404"},
	} {
		f := &fakeBackend{
			state: job.Running,
			task:  job.Task{ID: "train.0", Job: "train", AgentID: "a", State: job.Finished}, whose: map[string][2]string{"train": {"research", "owner"}},
			readLog: func(uint64) ([]byte, error) { return nil, nil }, changes: make(chan api.TaskEvent),
		}
		close(f.changes)
		url := serveWithPolicy(t, f, rolePolicy())
		var got []string
		for _, user := range users {
			status, kind, body := sendRequest(t, c.method, url+c.path, c.body, "Who", user)
			got = append(got, strconv.Itoa(status))
			if (status == 401 || status == 403) && (kind != apihttp.ProblemMediaType || !strings.Contains(body, `"detail"`)) {
				t.Errorf("%s %s: %s", c.method, c.path, body)
			}
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.method, c.path, g, c.want)
		}
	}
}

// TestInvisibleJobsAreNotFound checks that a job or task which the requester may not see
// gets exactly the response of one that does not exist.
func TestInvisibleJobsAreNotFound(t *testing.T) {
	there := &fakeBackend{task: job.Task{ID: "train.0", Job: "train"}, whose: map[string][2]string{"train": {"research", "owner"}}}
	url := serveWithPolicy(t, there, rolePolicy())
	for path, method := range map[string]string{"/v1/jobs/train": "DELETE", "/v1/tasks/train.0/log": "GET", "/v1/events?job=train": "GET"} {
		if status, _, body := sendRequest(t, method, url+path, "", "Who", "stranger"); status != 404 ||
			strings.Contains(body, "research") || !strings.Contains(body, `"there is no `) {
			t.Errorf("%s %s: %d %s", method, path, status, body)
		}
	}
	if _, _, body := sendRequest(t, "GET", url+"/v1/tasks/train.0/log", "", "Who", "stranger"); !strings.Contains(body, `there is no task \"train.0\"`) {
		t.Errorf("a task's answer is not a task's: %s", body)
	}
	_, _, unseen := sendRequest(t, "GET", url+"/v1/jobs/train", "", "Who", "stranger")
	if _, _, none := sendRequest(t, "GET", serveWithPolicy(t, &fakeBackend{}, rolePolicy())+"/v1/jobs/train", "", "Who", "stranger"); unseen != none {
		t.Errorf("a job that is hidden: %s\nand one that is not there: %s", unseen, none)
	}
}

// TestEveryRouteHasAccessRule checks that each route has an explicit access rule.
func TestEveryRouteHasAccessRule(t *testing.T) {
	for _, one := range routes() {
		if one.scope == nil {
			t.Errorf("%s has no scope: only an admin of all roles could make the request", one.request)
		}
	}
}

// TestUnlistedRequestNeedsAdmin: a route without a scope requires Admin on all roles.
func TestUnlistedRequestNeedsAdmin(t *testing.T) {
	s := &apiServer{}
	for user, want := range map[string]int{"operator": 403, "": 401, "root": 0} {
		r := httptest.NewRequestWithContext(t.Context(), "PUT", "/v1/new", nil)
		r = r.WithContext(apihttp.WithGrant(r.Context(), rolePolicy().GrantFor(access.Identity{Name: user})))
		var p *api.Problem
		if err := s.authorizeRequest(r, &route{request: "PUT /v1/new"}); err != nil {
			p, _ = err.(*api.Problem)
		}
		if got := cmp.Or(p, &api.Problem{}).Status; got != want {
			t.Errorf("%q: %d, want %d", user, got, want)
		}
	}
}

// TestRoleRequests checks that only admins of a role can change it.
func TestRoleRequests(t *testing.T) {
	p := rolePolicy()
	p.Rules = append(p.Rules, access.PermissionRule{Permission: access.Admin, Roles: []string{"research"}, Users: []string{"head"}})
	s := &apiServer{}
	quota := findRoute("PUT /v1/roles/{role}/quota")
	for user, want := range map[string][2]bool{"operator": {}, "head": {true, false}, "root": {true, true}} {
		for i, role := range []string{"research/vision", "prod"} {
			r := httptest.NewRequestWithContext(t.Context(), "PUT", "/", nil)
			r.SetPathValue("role", role)
			r = r.WithContext(apihttp.WithGrant(r.Context(), p.GrantFor(access.Identity{Name: user})))
			if err := s.authorizeRequest(r, quota); (err == nil) != want[i] {
				t.Errorf("%s, %s: %v", user, role, err)
			}
		}
	}
}

// TestListsHideInvisibleEntries checks that lists omit roles which the requester may not see.
func TestListsHideInvisibleEntries(t *testing.T) {
	view := func(name, role string) api.JobView {
		return api.JobView{Job: job.Job{Spec: &job.Spec{Name: name, Role: role}}}
	}
	f := &fakeBackend{
		jobs:    []api.JobView{view("train", "research"), view("web", "prod")},
		gpus:    []api.GPUView{{UUID: "1", Task: "train.0"}, {UUID: "2"}, {UUID: "3", Task: "train.0, train.1"}},
		whose:   map[string][2]string{"train": {"research", ""}, "web": {"prod", ""}},
		task:    job.Task{ID: "train.0", Job: "train"},
		now:     []api.TaskEvent{{Job: "train", Task: "train.0"}, {Job: "web", Task: "web.0"}, {Job: "gone", Task: "gone.0"}},
		changes: make(chan api.TaskEvent, 3),
	}
	for _, ev := range f.now {
		f.changes <- ev
	}
	close(f.changes)
	url := serveWithPolicy(t, f, rolePolicy())
	for user, want := range map[string][]string{
		"viewer":   {"train", "train.0,,train.0, train.1", "train train"},
		"stranger": {"web", "hidden,,hidden, hidden", "web web"},
		"root":     {"train web", "train.0,,train.0, train.1", "train web gone train web gone"},
	} {
		f.changes = make(chan api.TaskEvent, 3)
		for _, ev := range f.now {
			f.changes <- ev
		}
		close(f.changes)
		var got []string
		_, _, body := sendRequest(t, "GET", url+"/v1/jobs", "", "Who", user)
		got = append(got, strings.Join(findWords(body, `"name":"(\w+)"`), " "))
		_, _, body = sendRequest(t, "GET", url+"/v1/gpus", "", "Who", user)
		var list api.GPUList
		if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.GPUs) != 3 {
			t.Fatalf("%s: %v", body, err)
		}
		got = append(got, list.GPUs[0].Task+","+list.GPUs[1].Task+","+list.GPUs[2].Task)
		_, _, body = sendRequest(t, "GET", url+"/v1/events", "", "Who", user)
		got = append(got, strings.Join(findWords(body, `"job":"(\w+)"`), " "))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", user, diff)
		}
	}
}

// TestPrivateJobsShowPublicFieldsOnly checks that where output is private only users who may change a job or a schedule read its
// environment, its command, its files and its messages, through every request that returns them.
func TestPrivateJobsShowPublicFieldsOnly(t *testing.T) {
	spec := job.Spec{
		Name: "train", Role: "research", Owner: "owner", Command: []string{"hush"}, Env: map[string]string{"TOKEN": "hush"},
		Workdir: job.WorkdirPrefix + "hush", Notify: []job.NotificationRule{{To: "https://hooks.example/hush"}}, Tasks: 1,
	}
	task := job.Task{ID: "train.0", Job: "train", State: job.Failed, Attempt: 2, Message: "hush", HealthFailure: &job.HealthFailure{Cause: "hush"}, Ended: time.Unix(1, 0)}
	f := &listBackend{
		fakeBackend: &fakeBackend{
			jobs:  []api.JobView{{Job: job.Job{Spec: &spec, Tasks: []job.Task{task}}, Attempts: []job.Task{task}}},
			whose: map[string][2]string{"train": {"research", "owner"}},
			now:   []api.TaskEvent{{Job: "train", Task: "train.0", State: job.Failed, Message: "hush"}},
		},
		schedules: []api.ScheduleView{{Spec: spec, Note: "hush"}},
	}
	p := rolePolicy()
	p.PrivateOutput = true
	url := serveWithPolicy(t, f, p)
	for _, path := range []string{
		"/v1/jobs", "/v1/jobs/train", "/v1/jobs/train/file", "/v1/jobs/train/history", "/v1/jobs/train/runs", "/v1/events", "/v1/events?job=train",
		"/v1/schedules", "/v1/schedules/train",
	} {
		for user, reads := range map[string]bool{"viewer": false, "submitter": false, "owner": true, "operator": true, "root": true} {
			f.changes = make(chan api.TaskEvent)
			close(f.changes)
			_, _, body := sendRequest(t, "GET", url+path, "", "Who", user)
			if strings.Contains(body, "hush") != reads || !strings.Contains(body, "train") && !strings.HasSuffix(path, "/file") {
				t.Errorf("%s as %s: %s", path, user, body)
			}
		}
	}
}

func findWords(text, pattern string) (found []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestOwnerIsSetByScheduler checks that the owner in a body is ignored, and that a
// rejection names the missing permission.
func TestOwnerIsSetByScheduler(t *testing.T) {
	f := &fakeBackend{whose: map[string][2]string{"train": {"research", "owner"}}}
	url := serveWithPolicy(t, f, rolePolicy())
	sendRequest(t, "POST", url+"/v1/jobs", `{"name":"x","command":["true"],"owner":"root"}`, "Who", "submitter")
	if f.submitted.Owner != "submitter" {
		t.Errorf("the owner is %q", f.submitted.Owner)
	}
	sendRequest(t, "POST", serveBackend(t, f).URL+"/v1/jobs", `{"name":"x","command":["true"],"owner":"root"}`)
	if f.submitted.Owner != "" {
		t.Errorf("without an access file the owner is %q", f.submitted.Owner)
	}
	if _, _, body := sendRequest(t, "DELETE", url+"/v1/jobs/train", "", "Who", "viewer"); !strings.Contains(body,
		"viewer may not do this: it needs the permission submit on any role") {
		t.Error(body)
	}
	if _, _, body := sendRequest(t, "DELETE", url+"/v1/jobs/train", "", "Who", "submitter"); !strings.Contains(body,
		"it needs the permission operate on role research") {
		t.Error(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", url+"/v1/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if got := res.Header.Get("WWW-Authenticate"); got != `Bearer realm="mesos-gpu"` {
		t.Errorf("WWW-Authenticate: %q", got)
	}
}

// TestOpenPaths checks which paths need no token.
func TestOpenPaths(t *testing.T) {
	want := []string{"/healthz", "/readyz", "/v1/job.schema.json", "/v1/openapi.yaml", "/v1/sign-in"}
	if got := OpenPaths(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
