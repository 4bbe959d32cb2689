package web_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"mesos-gpu/framework"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/notification"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/verbs"
	"mesos-gpu/job"
)

// verbStep is one use of a verb on the page of a real scheduler.
type verbStep struct {
	verb   string // of verbs.List
	view   string
	there  string // an expression that is true once the view is complete for each user
	fields map[string]string
	// confirm is the button of the dialog, "" for the form of a new job.
	confirm string
	// allowed may use the verb. For forbidden, the button is not shown, and the same request is rejected.
	allowed, forbidden string
	// path is the path of the request, and body what the forbidden user sends.
	path, body string
	// effect is true on the page of the allowed user after the change.
	effect string
}

const (
	hasTasks = "document.querySelector('.job-output')?.checkVisibility()"
	// updatedTasks is true once an update of web's two tasks has ended.
	updatedTasks = "[...document.querySelectorAll('tbody td')].filter((td) => td.dataset.label === 'Attempt' && " +
		"td.textContent.startsWith('2')).length === 2 && document.querySelectorAll('td[data-state=RUNNING]').length === 2"
	hasRoles = "document.querySelector('.bars') && [...document.querySelectorAll('h4')].some((h) => h.textContent === 'carol')"
)

// seesButton is true while a button with the label is visible.
func seesButton(label string) string {
	return fmt.Sprintf("[...document.querySelectorAll('button, a.button')].some((b) => b.textContent === %q && b.checkVisibility())", label)
}

// hasFact is true while a property of the job has the value.
func hasFact(name, value string) string {
	return fmt.Sprintf("[...document.querySelectorAll('.facts > div')].some((d) => d.firstChild.textContent === %q && d.lastChild.textContent === %q)",
		name, value)
}

var verbSteps = []verbStep{
	{"submit a job", "#/submit", "document.getElementById('main').innerText",
		map[string]string{"name": "train", "command": "python train.py", "gpus": "1"}, "", "carol", "viewer", "/v1/jobs",
		`{"name":"train","command":["true"]}`,
		"location.hash === '#/jobs/train' && document.querySelector('.badge[data-state=RUNNING]')"},
	{"edit a job", "#/jobs/train", hasTasks, map[string]string{"priority": "7"}, "Save", "carol", "stranger", "/v1/jobs/train",
		`{"priority":8}`, hasFact("Priority", "7")},
	{"hold a job", "#/jobs/train", hasTasks, map[string]string{"reason": "new data"}, "Hold job", "operator", "stranger",
		"/v1/jobs/train/hold", `{}`, seesButton("Release")},
	{"release a job", "#/jobs/train", hasTasks, nil, "Release job", "operator", "carol", "/v1/jobs/train/hold", "",
		seesButton("Hold")}, // the hold of another user
	{"requeue a job", "#/jobs/train", hasTasks, map[string]string{"reason": "new driver"}, "Requeue tasks", "carol", "stranger",
		"/v1/jobs/train/requeue", `{}`,
		"[...document.querySelectorAll('tbody td')].some((td) => td.dataset.label === 'Attempt' && td.textContent.startsWith('2'))"},
	{"kill a job", "#/jobs/train", hasTasks, nil, "Kill job", "carol", "stranger", "/v1/jobs/train", "", "document.querySelector('.badge[data-state=KILLED]')"},
	{"rerun a job", "#/jobs/train", hasTasks, nil, "Rerun job", "carol", "viewer", "/v1/jobs/train/rerun", `{}`,
		"document.querySelector('.badge[data-state=RUNNING]')"},
	{"scale a service", "#/jobs/web", hasTasks, map[string]string{"tasks": "2"}, "Scale service", "operator", "stranger",
		"/v1/jobs/web/scale", `{"tasks":1}`,
		"document.querySelectorAll('tbody tr').length === 2 && document.querySelectorAll('td[data-state=RUNNING]').length === 2"},
	{"apply a service", "#/jobs/web/apply",
		"document.getElementById('main').innerText.includes('may not change') || document.querySelector('[name=file]').value",
		map[string]string{"file": "name: web\ncommand: sleep 2\nservice: true\ngpus: 1\ntasks: 2\n"}, "", "operator", "stranger",
		"/v1/jobs/web", `{"name":"web","command":["true"],"service":{}}`,
		"location.hash === '#/jobs/web' && document.querySelector('.command').textContent.includes('sleep 2') && " + updatedTasks},
	{"stop a task", "#/jobs/web", hasTasks, map[string]string{"retire": "true"}, "Stop task", "operator", "stranger",
		"/v1/tasks/{task}/stop", `{}`, "document.querySelectorAll('tbody tr').length === 1"},
	{"submit a schedule", "#/submit?schedule=true", "document.getElementById('main').innerText",
		map[string]string{"name": "nightly", "command": "python train.py", "cron": "0 3 * * *"}, "", "carol", "viewer",
		"/v1/schedules", `{"name":"nightly","command":["true"],"schedule":{"cron":"0 3 * * *"}}`,
		"location.hash === '#/schedules' && document.querySelector('tbody tr')"},
	{"kill a schedule", "#/schedules", "document.querySelector('tbody tr')", nil, "Kill schedule", "carol", "stranger",
		"/v1/schedules/nightly", "", "document.body.innerText.includes('No schedule.')"},
	{"notifications drop", "#/notifications", "document.querySelectorAll('tbody tr').length === 2", nil, "Drop notification",
		"carol", "stranger", "/v1/notifications/{notification}", "", "document.querySelectorAll('tbody tr').length === 1"},
	{"notifications retry", "#/notifications", "document.querySelectorAll('tbody tr').length === 1", nil, "Retry delivery",
		"operator", "stranger", "/v1/notifications/{notification}/retry", "",
		"document.body.innerText.includes('Every notification was delivered.')"},
	{"hold a user", "#/roles", hasRoles, map[string]string{"reason": "on leave"}, "Hold jobs", "carol", "stranger",
		"/v1/users/carol/hold", `{}`, "document.body.innerText.includes('Held by carol: on leave')"},
	{"release a user", "#/roles", hasRoles, nil, "Release jobs", "carol", "stranger", "/v1/users/carol/hold", "", "!document.body.innerText.includes('Held by')"},
	{"hold a role", "#/roles", hasRoles, map[string]string{"reason": "audit"}, "Hold jobs", "operator", "viewer",
		"/v1/roles/*/hold", `{}`, "document.body.innerText.includes('Held by operator: audit')"},
	{"release a role", "#/roles", hasRoles, nil, "Release jobs", "operator", "viewer", "/v1/roles/*/hold", "", "!document.body.innerText.includes('Held by')"},
	{"quota set", "#/roles", hasRoles, map[string]string{"quota": "*=8"}, "Set quota", "root", "operator", "/v1/roles/*/quota",
		`{"quota":"*=1"}`, "document.body.innerText.includes('of 8 held')"},
	{"quota unset", "#/roles", hasRoles, nil, "Unset quota", "root", "operator", "/v1/roles/*/quota", `{"quota":null}`,
		"!document.body.innerText.includes('of 8 held')"},
	{"cordon an agent", "#/agents/agent-1", "document.querySelector('tbody tr')", map[string]string{"reason": "new fans"},
		"Cordon agent", "operator", "carol", "/v1/agents/agent-1/cordon", `{}`, seesButton("Uncordon")},
	{"uncordon an agent", "#/agents/agent-1", "document.querySelector('tbody tr')", nil, "Uncordon agent", "operator", "carol",
		"/v1/agents/agent-1/uncordon", `{}`, seesButton("Cordon")},
	{"drain an agent", "#/agents/agent-1", "document.querySelector('tbody tr')", map[string]string{"reason": "new fans"},
		"Drain agent", "operator", "carol", "/v1/agents/agent-1/drain", `{}`, "document.body.innerText.includes('draining')"},
}

// listedNotification is the ID of a notification that was not delivered.
const listedNotification = "fetch('v1/notifications', {headers: {Authorization: " +
	"'Bearer ' + sessionStorage.getItem('mesos-gpu.token')}}).then((r) => r.json()).then((list) => list.notifications[0].id)"

// serveReluctantWebhook serves a webhook that rejects the first attempt of each notification. targets is the path of a
// file that allows it, by which the second attempt is due in an hour.
func serveReluctantWebhook(t *testing.T) (url, targets string) {
	t.Helper()
	var rejected sync.Map // the ids of those that were rejected
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, again := rejected.LoadOrStore(r.Header.Get(notification.IDHeader), true); !again {
			http.Error(w, "not yet", http.StatusInternalServerError)
			return
		}
		time.Sleep(500 * time.Millisecond) // longer than the page takes to request the list of notifications
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	secret, targets := filepath.Join(dir, "secret"), filepath.Join(dir, "notifications.yaml")
	text := fmt.Sprintf("webhooks: {hosts: ['%s'], secret_file: %s}\nretry: {first: 1h, longest: 1h}\n", strings.TrimPrefix(s.URL, "http://"), secret)
	for path, content := range map[string]string{secret: "0123456789abcdef\n", targets: text} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s.URL, targets
}

// TestVerbsOnPage uses each verb of the page on a real scheduler, as a user who may and as one who
// may not: the second sees no button, and the same request is rejected.
func TestVerbsOnPage(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	file, tokens := writeAccessFile(t, "", map[string]string{"viewer": "view", "carol": "submit", "stranger": "submit", "operator": "operate", "root": "admin"})
	receiver, targets := serveReluctantWebhook(t)
	address, _ := startScheduler(t, c, func(cfg *framework.SchedulerConfig) { cfg.API.AccessFile, cfg.Notifications = file, targets })
	tabs := map[string]*browserTab{}
	for user, token := range tokens {
		tabs[user] = openBlankTab(t)
		tabs[user].runBeforePage(withoutPeriodicRequests)
		tabs[user].loadPage(address + "/#/agents")
		tabs[user].signIn(token)
	}
	request := func(user, method, path, body string) int {
		kind := "application/yaml"
		if strings.HasPrefix(body, "{") {
			kind = "application/json"
		}
		return evalJS[int](tabs[user], fmt.Sprintf(`fetch(%q, {method: %q, body: %q || undefined, headers: {'Content-Type': %q, Authorization: 'Bearer ' + sessionStorage.getItem('mesos-gpu.token')}}).then((r) => r.status)`,
			path, method, body, kind))
	}
	if status := request("carol", http.MethodPost, "/v1/jobs", fmt.Sprintf("name: web\ncommand: sleep 1\nservice: true\ngpus: "+
		"1\nnotify: [{to: '%[1]s/a', on: [start]}, {to: '%[1]s/b', on: [start]}]\n",
		receiver)); status != http.StatusCreated {
		t.Fatalf("submit the service: status %d", status)
	}
	table := map[string]verbs.Verb{}
	for _, v := range verbs.List() {
		table[v.Name] = v
	}
	used := map[string]bool{}
	for _, s := range verbSteps {
		v := table[s.verb]
		used[s.verb] = true
		method, _, _ := strings.Cut(v.Request, " ")
		if !v.IsRequest(method + " " + s.path) {
			t.Errorf("%s: the path %s is not of %s", s.verb, s.path, v.Request)
		}
		allowed, forbidden := tabs[s.allowed], tabs[s.forbidden]
		for _, p := range []*browserTab{allowed, forbidden} {
			evalJS[bool](p, fmt.Sprintf("(location.hash = '#/agents'), (location.hash = %q), true", s.view))
			p.awaitTrue(s.there)
		}
		allowed.awaitTrue(seesButton(v.Page))
		if evalJS[bool](forbidden, seesButton(v.Page)) {
			t.Errorf("%s: %s sees the button %s", s.verb, s.forbidden, v.Page)
		}
		path := strings.Replace(s.path, "{task}", evalJS[string](allowed, "document.querySelector('.card code, .log-task')?.textContent ?? ''"), 1)
		if before, after, found := strings.Cut(path, "{notification}"); found {
			path = before + evalJS[string](allowed, listedNotification) + after
		}
		if status := request(s.forbidden, method, path, s.body); status != http.StatusForbidden {
			t.Errorf("%s: %s %s by %s: status %d, want %d", s.verb, method, path, s.forbidden, status, http.StatusForbidden)
		}
		if s.confirm != "" {
			allowed.clickButton(v.Page)
			allowed.awaitTrue("document.querySelector('dialog[open]')")
		}
		for name, value := range s.fields {
			allowed.fillField(name, value)
		}
		if s.confirm == "" {
			allowed.awaitTrue("document.getElementById('validation').dataset.result === 'good'")
		}
		allowed.clickButton(cmp.Or(s.confirm, v.Page))
		allowed.awaitTrue("!document.querySelector('dialog')")
		allowed.awaitTrue(s.effect)
		t.Logf("%s: %s may, %s may not", s.verb, s.allowed, s.forbidden)
	}
	for _, v := range verbs.List() {
		if v.Changes() && v.Page != "" && !used[v.Name] {
			t.Errorf("no step uses %q", v.Name)
		}
	}
}

// pageViews are addresses of the views that verbs.List names.
var pageViews = map[string]string{
	"Overview": "#/", "Jobs": "#/jobs", "Job": "#/jobs/train", "Queue": "#/queue", "Agents": "#/agents", "Schedules": "#/schedules",
	"Roles": "#/roles", "Usage": "#/usage", "Notifications": "#/notifications",
}

// readsFile is a verb whose request follows a click on a file, as TestFilesOfTask checks.
const readsFile = "cp a file out of a task"

// TestPageReadsVerbs checks that the view of each verb that reads sends the verb's request once it is loaded.
func TestPageReadsVerbs(t *testing.T) {
	address, client := startScheduler(t, mesostest.NewCluster(t, 4))
	submitJob(t, client, "train", 1, "sleep", "1")
	awaitTask(t, client, "train", job.Running)
	if err := client.KillJob(t.Context(), "train"); err != nil {
		t.Fatal(err)
	}
	awaitTask(t, client, "train", job.Killed)
	if _, err := client.RerunJob(t.Context(), "train", api.RerunRequest{}); err != nil { // the page lists runs if there are several
		t.Fatal(err)
	}
	views := map[string][]verbs.Verb{}
	for _, v := range verbs.List() {
		if !v.Changes() && v.Page != "" && v.Name != readsFile {
			views[v.Page] = append(views[v.Page], v)
		}
	}
	p := openBlankTab(t)
	requests := make(chan string, 10_000)
	err := chromedp.Listen(p.ctx, func(ev any) {
		if sent, ok := ev.(*network.EventRequestWillBeSent); ok {
			path := strings.TrimPrefix(sent.Request.URL, address)
			path, _, _ = strings.Cut(path, "?")
			requests <- sent.Request.Method + " " + path
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for view, list := range views {
		t.Run(view, func(t *testing.T) { testViewReads(t, p, requests, view, list, address) })
	}
}

// testViewReads loads a view and waits until it sends the request of each verb.
func testViewReads(t *testing.T, p *browserTab, requests <-chan string, view string, list []verbs.Verb, address string) {
	p.runActions(chromedp.Navigate("about:blank"))
	for len(requests) > 0 { // of the view before
		<-requests
	}
	p.runActions(chromedp.Navigate(address + "/" + pageViews[view]))
	if view == "Job" {
		p.awaitTrue(hasTasks)
		evalJS[bool](p, "document.querySelectorAll('details').forEach((d) => { d.open = true; }), true")
	}
	timeout := time.After(waitTimeout)
	for len(list) > 0 {
		select {
		case request := <-requests:
			list = slices.DeleteFunc(list, func(v verbs.Verb) bool { return v.IsRequest(request) })
		case <-timeout:
			for _, v := range list {
				t.Errorf("the view does not send %s, the request of %s", v.Request, v.Name)
			}
			return
		}
	}
}
