package web_test

import (
	"fmt"
	"testing"
)

// TestListsAreFilteredAndSortedByAddress checks that filters and the order are in the address, and
// that a page that is opened with it shows the same rows.
func TestListsAreFilteredAndSortedByAddress(t *testing.T) {
	f := newFakeCluster(8, 12)
	endJobs(f.jobs[6:])
	url := f.serve(t).URL
	p, again := openTab(t, url+"/#/jobs"), openBlankTab(t)
	rows := `[...document.querySelectorAll('tbody tr')].map((row) => row.firstChild.textContent.slice(-3)).join()`
	p.awaitTrue(rows + ` === '000,001,002,003,004,005,006,007,008,009,010,011'`)
	for _, c := range []struct{ step, address, want string }{
		{"[...document.querySelectorAll('.chip')].find((chip) => chip.textContent === 'failed 3').click()", "#/jobs?state=failed", "006,008,010"},
		{"[...document.querySelectorAll('.sort')].find((b) => b.textContent === 'Job').click()", "#/jobs?state=failed&sort=Job", "006,008,010"},
		{"[...document.querySelectorAll('.sort')].find((b) => b.textContent === 'Job').click()", "#/jobs?state=failed&sort=-Job", "010,008,006"},
		{"document.querySelector('[type=search]').value = 'PROD', document.querySelector('[type=search]').dispatchEvent(new Event('input'))",
			"#/jobs?state=failed&sort=-Job&q=PROD", "010"},
	} {
		evalJS[bool](p, "("+c.step+", true)")
		p.awaitTrue(fmt.Sprintf("location.hash === %q && %s === %q", c.address, rows, c.want))
		again.loadPage(url + "/" + c.address)
		again.awaitTrue(fmt.Sprintf("%s === %q", rows, c.want))
	}
	evalJS[bool](p, "(location.hash = '#/jobs?role=research'), true")
	p.awaitTrue(rows + ` === '000,003,006,009'`)
	p.clickButton("role: research ✕")
	p.awaitTrue("location.hash === '#/jobs' && document.querySelectorAll('tbody tr').length === 12")
}

// TestPhoneShowsManyJobs checks that 13 jobs take at most two screens of a phone.
func TestPhoneShowsManyJobs(t *testing.T) {
	p := openTab(t, newFakeCluster(8, 13).serve(t).URL+"/#/jobs")
	p.setSize(390, 844)
	p.awaitTrue("document.querySelectorAll('tbody tr').length === 13")
	if height := evalJS[int](p, "document.documentElement.scrollHeight"); height > 2*844 {
		t.Errorf("13 jobs are %d pixels high, more than two screens", height)
	}
}
