package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"mesos-gpu/framework"
	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// clickButton clicks the visible button with a text, in the open dialog if there is one.
func (p *browserTab) clickButton(label string) {
	p.t.Helper()
	p.awaitTrue(fmt.Sprintf(`(() => {
		const scope = document.querySelector('dialog[open]') ?? document;
		const button = [...scope.querySelectorAll('button, a.button')].find((b) => b.textContent === %q && b.checkVisibility() && !b.disabled);
		if (!button) return false;
		button.click();
		return true;
	})()`, label))
}

// fillField sets an input of the open dialog, or of the page, as a user would.
func (p *browserTab) fillField(name, value string) {
	p.t.Helper()
	evalJS[bool](p, fmt.Sprintf(`(() => {
		const scope = document.querySelector('dialog[open]') ?? document.getElementById('main');
		const input = scope.querySelector('[name=%q]');
		if (input.type === 'checkbox') input.checked = %[2]q === 'true';
		else input.value = %[2]q;
		input.dispatchEvent(new Event('input', {bubbles: true}));
		return true;
	})()`, name, value))
}

// actionLabels returns the visible buttons that request changes.
const actionLabels = `[...document.querySelectorAll('.actions button, td button, a.button')].filter((b) => b.checkVisibility()).map((b) => b.textContent).join()`

// serveActions serves a cluster in which each action is possible.
func serveActions(t *testing.T) (*fakeAPI, string) {
	f := newFakeCluster(3, 3)
	f.agents[1].Cordoned = "new fans"
	f.jobs[0].Spec.Service, f.jobs[0].Spec.Owner = &job.Service{}, "ada"
	f.jobs[2].Hold = &job.Hold{By: "bob", Reason: "new data"}
	ended := &f.jobs[1]
	ended.Spec.Tasks = 2
	ended.Tasks = append(ended.Tasks, ended.Tasks[0])
	ended.Tasks[1].Index, ended.Tasks[1].ID = 1, "train-001.1.1.x"
	endJobs(f.jobs[1:2])
	f.more["/v1/roles"] = api.RoleList{Roles: []api.RoleStatus{{Name: "research", Quota: map[string]int{"A100": 8},
		QuotaSet: true, Allocated: map[string]float64{"A100": 2}}}}
	f.more["/v1/schedules"] = api.ScheduleList{Schedules: []api.ScheduleView{{Spec: job.Spec{
		Name:     "nightly",
		Role:     "research",
		Schedule: &job.Schedule{Cron: "0 3 * * *"},
	}, NextRun: f.jobs[0].Submitted, Runs: []api.ScheduledRun{}}}}
	f.more["/v1/notifications"] = api.NotificationList{Notifications: []api.NotificationView{{ID: "n1",
		To: "mailto:ada@example.org", Event: job.NotifyEnd, Job: "train-001", Run: 1, Owner: "ada",
		State: api.NotificationFailed}}}
	return f, f.serve(t).URL
}

// changeSteps are the actions of each view, with what a user enters and the request that follows.
var changeSteps = []struct {
	view, button string
	fields       map[string]string
	confirm      string
	want         string
}{
	{"#/jobs/train-000", "Kill", nil, "Kill job", "DELETE /v1/jobs/train-000"},
	{"#/jobs/train-000", "Kill", map[string]string{"force": "true"}, "Kill job", "DELETE /v1/jobs/train-000?force=true"},
	{"#/jobs/train-000", "Scale", map[string]string{"tasks": "4"}, "Scale service", `POST /v1/jobs/train-000/scale {"tasks":4}`},
	{"#/jobs/train-000", "Stop task", map[string]string{"retire": "true"}, "Stop task", `POST /v1/tasks/train-000.0.1.c8dbz5x2q6a5/stop {"retire":true}`},
	{"#/jobs/train-000", "Hold", map[string]string{"reason": "new data"}, "Hold job", `PUT /v1/jobs/train-000/hold {"reason":"new data"}`},
	{"#/jobs/train-002", "Release", nil, "Release job", `DELETE /v1/jobs/train-002/hold`},
	{"#/jobs/train-000", "Requeue", map[string]string{"reason": "new driver", "hold": "true"}, "Requeue tasks",
		`POST /v1/jobs/train-000/requeue {"reason":"new driver","hold":true}`},
	{"#/jobs/train-000", "Edit", map[string]string{"priority": "7", "timeout": "2h"}, "Save", `PATCH /v1/jobs/train-000 {"priority":7,"timeout":"2h"}`},
	{"#/jobs/train-001", "Rerun", nil, "Rerun job", `POST /v1/jobs/train-001/rerun {}`},
	{"#/jobs/train-001", "Rerun", map[string]string{"failed": "true"}, "Rerun job", `POST /v1/jobs/train-001/rerun {"failed":true}`},
	{"#/agents/c1d9a6f0-S0", "Cordon", map[string]string{"reason": "new fans"}, "Cordon agent", `POST /v1/agents/c1d9a6f0-S0/cordon {"reason":"new fans"}`},
	{"#/agents/c1d9a6f0-S0", "Drain", map[string]string{"reason": "new fans"}, "Drain agent", `POST /v1/agents/c1d9a6f0-S0/drain {"reason":"new fans"}`},
	{"#/agents/c1d9a6f0-S1", "Uncordon", nil, "Uncordon agent", `POST /v1/agents/c1d9a6f0-S1/uncordon {}`},
	{"#/roles", "Set quota", map[string]string{"quota": "A100=4, *=8"}, "Set quota", `PUT /v1/roles/research/quota {"quota":"A100=4, *=8"}`},
	{"#/roles", "Unset quota", nil, "Unset quota", `PUT /v1/roles/research/quota {"quota":null}`},
	{"#/roles", "Hold", map[string]string{"reason": "audit", "drain": "true"}, "Hold jobs", `PUT /v1/roles/research/hold {"reason":"audit","drain":true}`},
	{"#/schedules", "Kill", nil, "Kill schedule", `DELETE /v1/schedules/nightly`},
	{"#/notifications", "Retry", nil, "Retry delivery", `POST /v1/notifications/n1/retry`},
	{"#/notifications", "Drop", nil, "Drop notification", `DELETE /v1/notifications/n1`},
}

// TestActionsOfPermittedUser checks each action: its dialog, the request, and the error of a
// scheduler that rejects it nevertheless.
func TestActionsOfPermittedUser(t *testing.T) {
	f, url := serveActions(t)
	p := openTab(t, url)
	for _, s := range changeSteps {
		evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", s.view))
		p.clickButton(s.button)
		p.awaitTrue("document.querySelector('dialog[open]')")
		for name, value := range s.fields {
			p.fillField(name, value)
		}
		p.clickButton(s.confirm)
		p.awaitTrue("!document.querySelector('dialog')")
		if got := f.takeChanges(); !slices.Equal(got, []string{s.want}) {
			t.Errorf("%s %s: got the requests %q, want %q", s.view, s.button, got, s.want)
		}
	}
	f.reject = "ada may not do this: it needs the permission operate on role research"
	evalJS[bool](p, "(location.hash = '#/jobs/train-000'), true")
	p.clickButton("Kill")
	p.clickButton("Kill job")
	p.awaitTrue("document.querySelector('dialog[open] [role=alert]').textContent.includes('it needs the permission operate')")
	p.clickButton("Cancel")
	p.awaitTrue("!document.querySelector('dialog')")
}

// TestActionsByPermission checks that users see exactly the actions that they may request.
func TestActionsByPermission(t *testing.T) {
	f, url := serveActions(t)
	grant := func(permission string, roles ...string) []api.RolePermission {
		return []api.RolePermission{{Permission: permission, Roles: roles}}
	}
	p := openBlankTab(t)
	for _, c := range []struct {
		name        string
		permissions []api.RolePermission
		want        []string // of #/jobs/train-000, #/jobs/train-001, an agent, the roles, the schedules
	}{
		{"viewer", grant("view", "/"), []string{"", "", "", "", ""}},
		{"ada", grant("submit", "research"), []string{
			"Submit job,Scale,Apply,Edit,Hold,Requeue,Kill,Stop task", "Submit job", "Submit job", "Submit job,Hold",
			"Submit job,New schedule",
		}},
		{"bob", grant("submit", "research", "prod"), []string{"Submit job", "Submit job,Rerun", "Submit job", "Submit job", "Submit job,New schedule"}},
		{"operator", grant("operate", "research"), []string{
			"Submit job,Scale,Apply,Edit,Hold,Requeue,Kill,Stop task", "Submit job", "Submit job", "Submit job,Hold",
			"Submit job,New schedule,Kill",
		}},
		{"root", grant("admin", "/"), []string{
			"Submit job,Scale,Apply,Edit,Hold,Requeue,Kill,Stop task", "Submit job,Rerun", "Submit job,Cordon,Drain",
			"Submit job,Hold,Set quota,Unset quota,Hold", "Submit job,New schedule,Kill",
		}},
	} {
		f.identity = api.RequesterIdentity{User: c.name, Authenticated: true, Permissions: c.permissions}
		p.loadPage(url)
		p.awaitTrue(fmt.Sprintf("document.querySelector('#account summary').textContent === %q", c.name))
		for i, view := range []struct{ address, there string }{
			{"#/jobs/train-000", "document.querySelector('.job-output')?.checkVisibility()"},
			{"#/jobs/train-001", "document.querySelector('.badge[data-state=FAILED]')"},
			{"#/agents/c1d9a6f0-S0", "document.querySelector('tbody tr')"},
			{"#/roles", "document.querySelector('.bars li')"},
			{"#/schedules", "document.querySelector('tbody tr')"},
		} {
			evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", view.address))
			p.awaitTrue(view.there)
			if got := evalJS[string](p, actionLabels); got != c.want[i] {
				t.Errorf("%s sees on %s the actions %q, want %q", c.name, view.address, got, c.want[i])
			}
		}
	}
	f.health.Role, f.identity = api.Standby, api.RequesterIdentity{}
	p.loadPage(url + "/#/jobs/train-000")
	p.awaitTrue("document.querySelector('.job-output')?.checkVisibility() && document.getElementById('stream').textContent === 'standby'")
	if got := evalJS[string](p, actionLabels); got != "" {
		t.Errorf("on a standby there are the actions %q", got)
	}
}

// TestPermissionsMatchScheduler checks that the page decides as package access does.
func TestPermissionsMatchScheduler(t *testing.T) {
	p := openTab(t, newFakeCluster(0, 0).serve(t).URL)
	levels := []access.Permission{access.View, access.Submit, access.Operate, access.Admin}
	roles := []string{"/", "*", "research", "research/vision", "researchers"}
	for _, granted := range levels {
		for _, on := range roles {
			policy := access.AccessPolicy{Rules: []access.PermissionRule{{Permission: granted, Roles: []string{on}, Users: []string{"ada"}}}}
			g := policy.GrantFor(access.Identity{Name: "ada"})
			var want []bool
			for _, level := range levels {
				for _, role := range roles {
					want = append(want, g.HasPermission(level, role))
				}
				want = append(want, g.HasPermissionOnAnyRole(level))
			}
			for _, role := range roles[1:] {
				want = append(want, g.CanChangeJob(role, "ada"), g.CanChangeJob(role, "bob"), g.CanChangeJob(role, ""))
			}
			got := evalJS[[]bool](p, fmt.Sprintf(`import('/static/permissions.js').then((m) => {
				const who = {user: 'ada', permissions: [{permission: '%s', roles: ['%s']}]};
				const roles = ['/', '*', 'research', 'research/vision', 'researchers'];
				return [...['view', 'submit', 'operate', 'admin'].flatMap((level) => [...roles.map((role) => m.hasPermission(who, level, role)), m.hasPermissionOnAnyRole(who, level)]),
					...roles.slice(1).flatMap((role) => ['ada', 'bob', ''].map((owner) => m.canChange(who, {role, owner})))];
			})`, granted, on))
			if !slices.Equal(got, want) {
				t.Errorf("%s on %s: got %v, want %v", granted, on, got, want)
			}
		}
	}
}

// writeAccessFile writes an access file with a token of each user, and returns its path and the tokens.
func writeAccessFile(t *testing.T, more string, rules map[string]string) (path string, tokens map[string]string) {
	t.Helper()
	tokens = map[string]string{}
	text := more + "tokens:\n- {name: spare, hash: 'sha256:" + strings.Repeat("0", 64) + "'}\n"
	for name := range rules {
		if strings.HasPrefix(name, access.OIDCPrefix) {
			continue // the issuer has its users
		}
		token, hash, err := access.NewToken(name)
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = token
		text += fmt.Sprintf("- {name: %s, hash: '%s'}\n", name, hash)
	}
	text += "permissions:\n"
	for name, may := range rules {
		text += fmt.Sprintf("- {may: %s, roles: [/], users: ['%s']}\n", may, name)
	}
	text += "jobs:\n- {roles: [/], without_image: true, networks: [host]}\n"
	path = filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, tokens
}

func (p *browserTab) signIn(token string) {
	p.t.Helper()
	p.awaitTrue("!document.getElementById('sign-in').hidden")
	evalJS[bool](p, fmt.Sprintf(`(() => {
		const form = document.querySelector('#sign-in form');
		form.elements.token.value = %q;
		form.requestSubmit();
		return true;
	})()`, token))
	p.awaitTrue("document.getElementById('sign-in').hidden && document.getElementById('stream').textContent === 'live'")
}

// TestSubmissionOnRealScheduler submits a job with the form to a scheduler with an access file,
// kills it, and runs it again. A user who may only read can do nothing of that, on the page or
// past it.
func TestSubmissionOnRealScheduler(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	file, tokens := writeAccessFile(t, "", map[string]string{"ada": "submit", "viewer": "view"})
	url, _ := startScheduler(t, c, func(cfg *framework.SchedulerConfig) { cfg.API.AccessFile = file })
	p := openTab(t, url+"/#/submit")
	p.signIn(tokens["ada"])
	p.awaitTrue("document.querySelector('form.submit')?.checkVisibility()")
	result := func(want string) {
		t.Helper()
		p.awaitTrue(fmt.Sprintf("document.getElementById('validation').textContent.includes(%q)", want))
	}
	p.fillField("name", "train")
	p.fillField("command", "python train.py")
	p.fillField("gpus", "2000001")
	result("gpus")
	p.fillField("gpus", "1")
	p.fillField("env", "EPOCHS=3\nNAME=a b=c: #1")
	p.fillField("labels", "team=vision")
	result("The job is valid.")
	p.saveScreenshot("valid")
	p.clickButton("Submit")
	p.awaitTrue("location.hash === '#/jobs/train' && document.querySelector('.badge[data-state=RUNNING]')")
	env := evalJS[string](p,
		"fetch('v1/jobs/train', {headers: {Authorization: 'Bearer ' + sessionStorage.getItem('mesos-gpu.token')}}).then((r) => "+
			"r.json()).then((j) => JSON.stringify([j.spec.env, j.spec.labels, j.spec.owner, j.spec.command]))")
	if want := `[{"EPOCHS":"3","NAME":"a b=c: #1"},{"team":"vision"},"ada",["/bin/sh","-c","python train.py"]]`; env != want {
		t.Errorf("the job has %s, want %s", env, want)
	}
	p.clickButton("Kill")
	p.clickButton("Kill job")
	p.awaitTrue("!document.querySelector('dialog')")
	p.awaitTrue("document.querySelector('.badge[data-state=KILLED]')")
	p.clickButton("Rerun")
	p.clickButton("Rerun job")
	p.awaitTrue("document.querySelector('.badge[data-state=RUNNING]')")

	viewer := openTab(t, url+"/#/jobs/train")
	viewer.signIn(tokens["viewer"])
	viewer.awaitTrue("document.querySelector('.badge[data-state=RUNNING]')")
	if got := evalJS[string](viewer, actionLabels); got != "" {
		t.Errorf("a user who may only read sees the actions %q", got)
	}
	if got := evalJS[int](viewer,
		"fetch('v1/jobs/train', {method: 'DELETE', headers: {Authorization: "+
			"'Bearer ' + sessionStorage.getItem('mesos-gpu.token')}}).then((r) => r.status)"); got != http.StatusForbidden {
		t.Errorf("past the page the user gets the status %d", got)
	}
	evalJS[bool](viewer, "document.querySelector('#account summary').click() ?? true")
	viewer.clickButton("Sign out")
	viewer.awaitTrue("!document.getElementById('sign-in').hidden && sessionStorage.length === 0 && !document.body.innerText.includes('train')")
}

// TestCrossSiteRequestsAreRejected lets a page of another site send every kind of request that a
// browser sends without asking, to a scheduler whose users need no token and to one with a
// session in another tab.
func TestCrossSiteRequestsAreRejected(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	url, client := startScheduler(t, c)
	submitJob(t, client, "train", 1, "true")
	awaitTask(t, client, "train", job.Running)
	attack := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w,
			`<!doctype html><form method="post" action="%s/v1/jobs/train/scale" enctype="text/plain" target="frame"><input name='{"tasks":0,"x":"' value='"}'></form><iframe name="frame"></iframe>`,
			url)
	}))
	t.Cleanup(attack.Close)
	p := openBlankTab(t)
	p.runActions(chromedp.Navigate(strings.Replace(attack.URL, "127.0.0.1", "localhost", 1)))
	p.awaitTrue("document.forms.length === 1")
	evalJS[bool](p, "document.forms[0].submit() ?? true")
	answers := evalJS[[]string](p, fmt.Sprintf(`Promise.all([
		['POST', '/v1/jobs', '{"name":"mine","command":["true"]}'], ['POST', '/v1/jobs/train/rerun', '{}'], ['POST', '/v1/agents/agent-1/drain', '{"reason":"x"}'], ['DELETE', '/v1/jobs/train', null],
	].map(([method, path, body]) => fetch(%q + path, {method, body, mode: method === 'DELETE' ? 'cors' : 'no-cors', credentials: 'include'}).then((r) => r.type, () => 'blocked')))`,
		url))
	p.mu.Lock()
	p.mistakes = nil // the browser reports that it blocks requests
	p.mu.Unlock()
	for _, answer := range answers {
		if answer != "opaque" && answer != "blocked" {
			t.Errorf("a page of another site can read an answer: %s", answer)
		}
	}
	j, err := client.GetJob(t.Context(), "train")
	if err != nil || j.Run != 1 || j.Terminal || len(j.Tasks) != 1 || j.Tasks[0].State != job.Running {
		t.Errorf("the attack has changed the job: %+v, %v", j, err)
	}
	jobs := 0
	for range client.EachJob(t.Context(), "") {
		jobs++
	}
	if jobs != 1 {
		t.Errorf("the attack has submitted a job: there are %d", jobs)
	}
	own := openTab(t, url+"/#/jobs/train") // the page itself may
	own.clickButton("Kill")
	own.clickButton("Kill job")
	own.awaitTrue("!document.querySelector('dialog')")
	own.awaitTrue("document.querySelector('.badge[data-state=KILLED]')")
}
