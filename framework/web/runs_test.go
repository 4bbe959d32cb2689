package web_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestEarlierRuns runs a job twice on a real scheduler: its page lists both runs, that of the first one shows its state and
// runs it again, and the address of the newest run leads to the job.
func TestEarlierRuns(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	url, api := startScheduler(t, c)
	submitJob(t, api, "train", 1, "python", "train.py")
	awaitTask(t, api, "train", job.Running)
	p := openTab(t, url+"/#/jobs/train")
	p.clickButton("Kill")
	p.clickButton("Kill job")
	p.clickButton("Rerun")
	p.clickButton("Rerun job")
	runs := "[...document.querySelectorAll('table')].find((table) => table.caption.textContent === 'Runs')"
	p.awaitTrue(runs + "?.checkVisibility() && [..." + runs +
		".querySelectorAll('tbody tr')].map((row) => `${row.cells[0].textContent} ${row.cells[1].textContent} " +
		"${row.hasAttribute('aria-current')}`).join() === '2 RUNNING true,1 KILLED false'")
	evalJS[bool](p, runs+".querySelector('tbody tr:last-child a').click() ?? true")
	p.awaitTrue("location.hash === '#/jobs/train%401' && document.querySelector('h2').textContent === 'train@1' && " +
		"document.querySelector('.heading .badge').textContent === 'KILLED'")
	if got := evalJS[string](p, actionLabels); got != "Submit job,Rerun" {
		t.Errorf("an earlier run has the actions %q", got)
	}
	p.clickButton("Rerun")
	p.clickButton("Rerun job")
	p.awaitTrue("document.querySelector('dialog [role=alert]').textContent.includes('RUNNING')") // the name is in use
	p.clickButton("Cancel")
	evalJS[bool](p, "(location.hash = '#/jobs/train@2'), true")
	p.awaitTrue("location.hash === '#/jobs/train' && document.querySelector('.heading .badge')?.textContent === 'RUNNING'")
	p.clickButton("Kill")
	p.clickButton("Kill job")
	p.awaitTrue("document.querySelector('.heading .badge').textContent === 'KILLED'")
	evalJS[bool](p, "(location.hash = '#/jobs/train@1'), true")
	p.awaitTrue("document.querySelector('h2').textContent === 'train@1'")
	p.clickButton("Rerun")
	p.clickButton("Rerun job")
	p.awaitTrue("location.hash === '#/jobs/train' && document.querySelector('.heading .badge')?.textContent === 'RUNNING' && " + runs + "?.rows.length === 4")
	evalJS[bool](p, "(location.hash = '#/jobs/train@9'), true")
	p.awaitText(`there is no job "train@9"`)
}

// TestApplyRejectsLostUpdate edits a service on the page while another user changes it: the change is rejected until the
// file is loaded again.
func TestApplyRejectsLostUpdate(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	url, api := startScheduler(t, c)
	if _, err := api.SubmitJob(t.Context(), job.Spec{Name: "web", Tasks: 1, Service: &job.Service{}, Command: []string{"serve"}}); err != nil {
		t.Fatal(err)
	}
	awaitTask(t, api, "web", job.Running)
	p := openTab(t, url+"/#/jobs/web")
	p.clickButton("Apply")
	p.awaitTrue("document.querySelector('[name=file]')?.value.includes('command')")
	edit := func(command, of string) {
		t.Helper()
		p.fillField("file", strings.Replace(evalJS[string](p, "document.querySelector('[name=file]').value"), of, command, 1))
	}
	edit("serve", "serve") // the same file
	p.awaitText("Nothing would change.")
	edit("serve --new", "serve")
	p.awaitTrue("document.querySelector('.diff ins')?.textContent.includes('serve --new')")
	if err := api.ScaleJob(t.Context(), "web", 2); err != nil {
		t.Fatal(err)
	}
	p.clickButton("Apply")
	p.awaitTrue("document.getElementById('validation').dataset.result === 'bad' && document.getElementById('validation').textContent.includes('it has changed')")
	p.clickButton("Load again")
	p.awaitTrue("document.querySelector('[name=file]').value.includes('tasks: 2')")
	edit("serve --new", "serve")
	p.awaitTrue("document.querySelector('.diff ins')")
	p.clickButton("Apply")
	p.awaitTrue("location.hash === '#/jobs/web' && document.querySelector('.command')?.textContent.includes('serve --new')")
	if view, err := api.GetJob(t.Context(), "web"); err != nil || view.Version != 1 || view.Spec.Tasks != 2 {
		t.Errorf("the service has version %d and %d tasks, %v", view.Version, view.Spec.Tasks, err)
	}
}

// TestLineDiff checks that the differences of texts give both texts and are as few as possible.
func TestLineDiff(t *testing.T) {
	p := openTab(t, newFakeCluster(0, 0).serve(t).URL)
	random := rand.New(rand.NewPCG(1, 2))
	text := func() []string {
		lines := make([]string, 1+random.IntN(12))
		for i := range lines {
			lines[i] = string(rune('a' + random.IntN(4)))
		}
		return lines
	}
	type line struct{ Sign, Text string }
	for range 200 {
		first, second := text(), text()
		got := evalJS[[]line](p, fmt.Sprintf("import('/static/line_diff.js').then(({diffLines}) => diffLines(%q, %q))",
			strings.Join(first, "\n")+"\n", strings.Join(second, "\n")+"\n"))
		var before, after []string
		common := 0
		for _, l := range got {
			if l.Sign != "+" {
				before = append(before, l.Text)
			}
			if l.Sign != "-" {
				after = append(after, l.Text)
			}
			if l.Sign == " " {
				common++
			}
		}
		if strings.Join(before, "") != strings.Join(first, "") || strings.Join(after, "") != strings.Join(second, "") || common != commonLines(first, second) {
			t.Fatalf("%q and %q: %v", first, second, got)
		}
	}
}

// commonLines returns the length of the longest common subsequence.
func commonLines(a, b []string) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	previous := make([]int, len(b)+1)
	for _, x := range a {
		current := make([]int, len(b)+1)
		for j, y := range b {
			if current[j+1] = max(current[j], previous[j+1]); x == y {
				current[j+1] = previous[j] + 1
			}
		}
		previous = current
	}
	return previous[len(b)]
}

// TestPageShowsEstimatedStarts checks that the queue, the page of a waiting job and the form of a new one show when it probably
// starts, with the bounds.
func TestPageShowsEstimatedStarts(t *testing.T) {
	f := newFakeCluster(3, 3)
	f.jobs[2].Start = fakeStart(2*time.Hour + 50*time.Second)
	f.more["/v1/queue"] = map[string]any{"jobs": []map[string]any{{"position": 1, "name": "train-002",
		"submitted": f.jobs[2].Submitted, "tasks": 1, "waiting": 1, "gpus": "2 x A100", "start": f.jobs[2].Start}}}
	f.more["POST /v1/validate"] = map[string]any{"spec": *f.jobs[2].Spec, "file": "", "warnings": []string{}, "start": f.jobs[2].Start}
	p := openTab(t, f.serve(t).URL+"/#/queue")
	shows := func(pattern string) string {
		return fmt.Sprintf("/%s/.test(document.getElementById('main').textContent)", pattern)
	}
	p.awaitTrue(shows(`in (2 h|1 h \d+ min) \(\d+ min to [45] h( \d+ min)?\)`))
	evalJS[bool](p, "(location.hash = '#/jobs/train-002'), true")
	bounds := shows(`in (2 h|1 h \d+ min), at .*: 50 % after 1 h \d+ min to [23] h( \d+ min)?, 90 % after \d+ min to [45] h( \d+ min)?`)
	p.awaitTrue(bounds)
	evalJS[bool](p, "(location.hash = '#/submit'), true")
	p.awaitTrue("document.querySelector('form.submit')?.checkVisibility()")
	p.fillField("name", "train")
	p.awaitTrue(bounds)
}
