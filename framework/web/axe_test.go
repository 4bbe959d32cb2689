package web_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/mesostest"
)

// readAxe returns axe-core, which checks a page by the rules of the Web Content Accessibility
// Guidelines. Its license is in its first lines.
func readAxe(t *testing.T) string {
	t.Helper()
	f, err := os.Open("testdata/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// listViolations is an expression for the rules that a part of the page violates, with the first element of each.
func listViolations(part, rules string) string {
	return fmt.Sprintf(`axe.run(%s, {runOnly: [%s], resultTypes: ['violations']})
		.then(({violations}) => violations.map((v) => v.id + ': ' + v.help + ': ' + v.nodes[0].html.slice(0, 200)))`, part, rules)
}

const allRules = "'wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'"

// TestAccessibility checks that no view, form or dialog has a violation.
func TestAccessibility(t *testing.T) {
	axe := readAxe(t)
	check := func(p *browserTab, name, part, rules string) {
		t.Helper()
		for _, v := range evalJS[[]string](p, listViolations(part, rules)) {
			t.Errorf("%s: %s", name, v)
		}
	}
	p := openTab(t, serveBusyCluster(t).URL)
	evalJS[bool](p, axe+"; true")
	p.setColorScheme("light")
	for i, v := range views {
		p.openView(i)
		check(p, v.name, "document", allRules)
	}
	p.setColorScheme("dark") // TestAppearance compares the colors of both schemes on wide screens too
	p.setSize(390, 844)
	for i, v := range views {
		p.openView(i)
		check(p, v.name+" on a phone", "document", allRules)
	}
	p.openView(3)
	p.clickButton("Kill")
	p.awaitTrue("document.querySelector('dialog[open]')")
	check(p, "dialog", "document", allRules)
	p.clickButton("Cancel")
	evalJS[bool](p, "document.querySelector('#account summary').click() ?? true")
	p.awaitTrue("document.getElementById('account').open")
	check(p, "account", "document", allRules)

	_, url := serveActions(t)
	p = openTab(t, url)
	evalJS[bool](p, axe+"; true")
	checked := map[string]bool{}
	for _, s := range changeSteps {
		evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", s.view))
		p.clickButton(s.button)
		p.awaitTrue("document.querySelector('dialog[open]')")
		part := "document"
		if checked[s.view] {
			part = "document.querySelector('dialog')"
		}
		check(p, s.view+" "+s.button, part, allRules)
		checked[s.view] = true
		p.clickButton("Cancel")
		p.awaitTrue("!document.querySelector('dialog')")
	}

	f := newFakeCluster(1, 1)
	f.token = "s3cret"
	f.identity.SignIn = &api.OIDCSignIn{
		Issuer:                "https://sso.example.org",
		ClientID:              "mesos-gpu",
		AuthorizationEndpoint: "https://sso.example.org/authorize",
		Scopes:                "openid",
	}
	p = openTab(t, f.serve(t).URL)
	p.awaitText("Sign in with sso.example.org")
	evalJS[bool](p, axe+"; true")
	check(p, "sign-in", "document", allRules)
}

// TestJobFileByKeyboard submits a job file with mistakes to a real scheduler, corrects it, submits it
// and kills the job, all by keyboard.
func TestJobFileByKeyboard(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	url, _ := startScheduler(t, c)
	p := openTab(t, url+"/#/submit")
	p.awaitTrue("document.querySelector('form.submit')?.checkVisibility()")
	press := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			p.runActions(chromedp.KeyEvent(key))
		}
	}
	tabTo := func(expression string) {
		t.Helper()
		for range 60 {
			press(kb.Tab)
			if evalJS[bool](p, "Boolean(document.activeElement."+expression+")") {
				return
			}
		}
		t.Fatalf("no Tab leads to %s", expression)
	}
	tabTo("closest('.chip')")
	press(kb.ArrowRight)
	tabTo("matches('.file textarea')")
	p.runActions(chromedp.KeyEvent("name: train\ncommand: python train.py\ngpuz: 1\nmem: lots\n"))
	p.awaitTrue(`document.querySelector('#validation[data-result=bad]')?.textContent.includes('gpuz') && document.getElementById('validation').textContent.includes('mem')`)
	if !evalJS[bool](p, "document.querySelector('form.submit .primary').disabled") {
		t.Error("a file with mistakes can be submitted")
	}
	if wrong := evalJS[[]string](p, readAxe(t)+"; "+listViolations("document", allRules)); len(wrong) > 0 {
		t.Errorf("a file with mistakes: %q", wrong)
	}
	p.runActions(chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	p.runActions(chromedp.KeyEvent("name: train\ncommand: python train.py\ngpus: 1\n"))
	p.awaitTrue(`document.querySelector('#validation[data-result=good]') && !document.querySelector('form.submit .primary').disabled`)
	tabTo("matches('form.submit .primary')")
	press(kb.Enter)
	p.awaitTrue("location.hash === '#/jobs/train' && document.querySelector('.badge[data-state=RUNNING]')")
	tabTo("textContent === 'Kill'")
	press(kb.Enter)
	p.awaitTrue("document.querySelector('dialog[open]')")
	tabTo("textContent === 'Kill job'")
	press(kb.Enter)
	p.awaitTrue("document.querySelector('.badge[data-state=KILLED]') && !document.querySelector('dialog')")
}
