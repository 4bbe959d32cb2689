package web_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"testing"
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

// listViolations returns the rules that the page violates, with the first element of each.
const listViolations = `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
	.then(({violations}) => violations.map((v) => v.id + ': ' + v.help + ': ' + v.nodes[0].html.slice(0, 200)))`

// TestAccessibility checks that no view, form or dialog has a violation.
func TestAccessibility(t *testing.T) {
	axe := readAxe(t)
	check := func(p *browserTab, name string) {
		t.Helper()
		for _, v := range evalJS[[]string](p, listViolations) {
			t.Errorf("%s: %s", name, v)
		}
	}
	p := openTab(t, serveBusyCluster(t).URL)
	p.runBeforePage(axe)
	evalJS[bool](p, axe+"; true")
	for _, scheme := range []string{"light", "dark"} {
		p.setColorScheme(scheme)
		for _, v := range views {
			evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", v.address))
			p.awaitTrue(v.there)
			check(p, v.name+" "+scheme)
		}
	}
	p.setSize(390, 844)
	for _, v := range views[2:4] {
		evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", v.address))
		p.awaitTrue(v.there)
		check(p, v.name+" on a phone")
	}
	p.clickButton("Kill")
	p.awaitTrue("document.querySelector('dialog[open]')")
	check(p, "dialog")
	p.clickButton("Cancel")
	evalJS[bool](p, "document.querySelector('#account summary').click() ?? true")
	p.awaitTrue("document.getElementById('account').open")
	check(p, "account")

	f := newFakeCluster(1, 1)
	f.token = "s3cret"
	p = openTab(t, f.serve(t).URL)
	p.awaitText("requires a token")
	evalJS[bool](p, axe+"; true")
	check(p, "sign-in")
}
