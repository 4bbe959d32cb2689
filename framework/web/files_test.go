package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// openFiles opens the files of a task with those of serveFiles.
func openFiles(t *testing.T, change func(*fakeAPI)) *browserTab {
	t.Helper()
	f := newFakeCluster(1, 1)
	checkStates(&f.jobs[0])
	serveFiles(f, f.jobs[0].Tasks)
	change(f)
	p := openTab(t, f.serve(t).URL+"/#/jobs/train-000")
	p.awaitTrue("!document.querySelector('details.files').hidden")
	evalJS[bool](p, "document.querySelector('details.files').open = true")
	return p
}

const fileNames = "[...document.querySelector('.files .table tbody').rows].map((row) => row.firstChild.textContent).join()"

// TestFilesOfTask browses a task's sandbox: folders first, sockets without a button, the start of a text, and whole
// files, binary ones too, saved by a click. Names and contents are never markup.
func TestFilesOfTask(t *testing.T) {
	p := openFiles(t, func(*fakeAPI) {})
	p.awaitTrue(fileNames + " === 'checkpoints/,control.sock,metrics.csv,stdout'")
	if evalJS[bool](p, "[...document.querySelectorAll('.files button')].some((b) => b.textContent === 'control.sock')") {
		t.Error("a socket can be opened")
	}
	p.clickButton("metrics.csv")
	p.awaitTrue("document.querySelector('.files .preview').textContent.startsWith('epoch,loss\\n17,') && " +
		"document.querySelector('.files .preview').textContent.length === 65536 && document.querySelector('.files').textContent.includes('The first 64 KiB')")
	p.clickButton("checkpoints/")
	p.awaitTrue(fileNames + " === '<b>&note,epoch-17.pt' && document.querySelector('.crumbs').textContent === 'sandboxcheckpoints'")
	p.clickButton("<b>&note")
	p.awaitTrue("document.querySelector('.files .preview').textContent === '<b>bold</b>\\n' && document.querySelectorAll('.files b').length === 0")
	p.clickButton("epoch-17.pt")
	p.awaitTrue("document.querySelector('.files .preview').hidden && document.querySelector('.files').textContent.includes('The file is no text.')")
	saved := evalJS[string](p, `new Promise((done) => {
		const create = URL.createObjectURL;
		URL.createObjectURL = (blob) => { blob.text().then(done); return create.call(URL, blob); };
		document.querySelector('.files .title button').click();
	})`)
	if saved != "PK\x00\x00" {
		t.Errorf("saved %q", saved)
	}
	p.clickButton("sandbox")
	p.awaitTrue(fileNames + " === 'checkpoints/,control.sock,metrics.csv,stdout'")
}

// TestFilesByKeyboard opens a folder and a file by keyboard; the focus then is on the button that saves the file.
func TestFilesByKeyboard(t *testing.T) {
	p := openFiles(t, func(*fakeAPI) {})
	p.awaitTrue(fileNames + " === 'checkpoints/,control.sock,metrics.csv,stdout'")
	evalJS[bool](p, "document.querySelector('.files summary').focus() ?? true")
	for _, focus := range []string{"sandbox", "checkpoints/"} {
		p.runActions(chromedp.KeyEvent(kb.Tab))
		p.awaitTrue(fmt.Sprintf("document.activeElement.textContent === %q", focus))
	}
	p.runActions(chromedp.KeyEvent(kb.Enter))
	p.awaitTrue(fileNames + " === '<b>&note,epoch-17.pt'")
	p.awaitTrue("document.activeElement.textContent === 'checkpoints' && document.activeElement.closest('.crumbs')")
	p.runActions(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	p.awaitTrue("document.activeElement.textContent === 'Download' && document.querySelector('.files h4').textContent === 'checkpoints/<b>&note'")
}

// TestFilesOfRemovedSandbox checks that the artifacts in the store are readable once Mesos has removed the sandbox.
func TestFilesOfRemovedSandbox(t *testing.T) {
	p := openFiles(t, func(f *fakeAPI) {
		for path := range f.more {
			if strings.HasSuffix(path, "/files") {
				delete(f.more, path)
			}
		}
	})
	p.awaitText("there is nothing at /v1/tasks/train-000.2.1.c8dbz5x2q6a5/files") // the scheduler's message
	p.clickButton("model/best.pt")
	p.awaitTrue("document.querySelector('.files .preview').textContent === 'the best weights'")
}
