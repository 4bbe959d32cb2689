package web_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
)

// formatOutput returns the answer of the API with a task's output. Each part is written a second after the one before.
func formatOutput(parts ...api.OutputPart) string {
	var text strings.Builder
	for i, part := range append(parts, api.OutputPart{Complete: true}) {
		if !part.Complete {
			part.Time = time.Date(2026, 3, 1, 12, 0, i, 0, time.UTC)
		}
		_ = json.NewEncoder(&text).Encode(part) // a builder returns no error
	}
	return text.String()
}

func stdout(text string) api.OutputPart { return api.OutputPart{Stream: "stdout", Text: text} }
func stderr(text string) api.OutputPart { return api.OutputPart{Stream: "stderr", Text: text} }

// setLogInput sets a radio button or a check box of the output.
func setLogInput(p *browserTab, selector string) {
	evalJS[bool](p, "document.querySelector('.tools "+selector+"').click() ?? true")
}

// TestLogShowsBothStreams checks that output is in the order in which it was written, with whole lines and the last state of
// progress bars, that standard error is marked, and that one stream, the times and the whole output can be selected.
func TestLogShowsBothStreams(t *testing.T) {
	f := newFakeCluster(1, 1)
	path := "/v1/tasks/" + f.jobs[0].Tasks[0].ID + "/output"
	f.more[path] = formatOutput(stdout("epoch 1\nepo"), stderr("warning: slow\n"), stdout("ch 2\n"), stderr("\r 10 %"),
		stderr("\r100 %\r\n"), api.OutputPart{Stream: "stdout", Data: []byte("\xff!\n")})
	f.more[path+"?follow=true&tail=1000&stream=stderr"] = formatOutput(stderr("warning: slow\n"))
	f.more[path+"?follow=true&tail=1000&stream=stdout"] = formatOutput()
	p := openTab(t, f.serve(t).URL+"/#/jobs/train-000")
	shows := func(text string) {
		t.Helper()
		p.awaitTrue("document.querySelector('pre.log').textContent === " + strconv.Quote(text))
	}
	shows("epoch 1\nepoch 2\nwarning: slow\n100 %\n\ufffd!\n")
	p.awaitText("End of the output.")
	p.awaitTrue("document.querySelectorAll('pre.log .stderr').length === 2")
	if got := downloadText(p); !strings.HasPrefix(got, "epoch 1\nepo") || !strings.HasSuffix(got, "\ufffd!\n") {
		t.Errorf("downloaded %q", got)
	}
	setLogInput(p, "[value=stderr]")
	shows("warning: slow\n")
	setLogInput(p, "[type=checkbox]")
	shows("2026-03-01T12:00:00Z warning: slow\n")
	setLogInput(p, "[value=stdout]")
	p.awaitText("The task wrote nothing to stdout.")
}

// TestLogIsBounded checks that the page keeps the last lines only.
func TestLogIsBounded(t *testing.T) {
	f := newFakeCluster(1, 1)
	f.more["/v1/tasks/"+f.jobs[0].Tasks[0].ID+"/output"] = formatOutput(stdout(strings.Repeat("x\n", 6000)), stdout("last\n"))
	p := openTab(t, f.serve(t).URL+"/#/jobs/train-000")
	p.awaitText("End of the output.")
	p.awaitTrue("document.querySelectorAll('pre.log span').length === 5000 && document.querySelector('pre.log').textContent.endsWith('x\\nlast\\n')")
}

// downloadText presses the button Download and returns the text of the file.
func downloadText(p *browserTab) string {
	return evalJS[string](p, `new Promise((done) => {
		const create = URL.createObjectURL;
		URL.createObjectURL = (blob) => { blob.text().then(done); return create.call(URL, blob); };
		[...document.querySelectorAll('button')].find((b) => b.textContent === 'Download').click();
	})`)
}

// TestLogSearchAndDownload checks that the search shows the matching lines, marked, also of later
// output, and that the download has the whole output.
func TestLogSearchAndDownload(t *testing.T) {
	f := newFakeCluster(1, 1)
	f.more["/v1/tasks/"+f.jobs[0].Tasks[0].ID+"/output"] = formatOutput(stdout(strings.Repeat("epoch 1\n", 3) + "Loss is <b>NaN</b> at epoch 2\n"))
	p := openTab(t, f.serve(t).URL+"/#/jobs/train-000")
	p.awaitTrue("document.querySelector('pre').textContent.includes('NaN')")
	evalJS[bool](p,
		"(() => { const search = document.querySelector('.tools [type=search]'); search.value = '<B>nan'; "+
			"search.dispatchEvent(new Event('input')); return true; })()")
	p.awaitTrue("document.querySelector('pre.log').textContent === 'Loss is <b>NaN</b> at epoch 2\\n' && " +
		"document.querySelector('pre.log mark').textContent === '<b>NaN'")
	p.awaitText("1 line")
	if got := downloadText(p); !strings.HasPrefix(got, "epoch 1\nepoch 1\n") || !strings.HasSuffix(got, "epoch 2\n") {
		t.Errorf("downloaded %q", got)
	}
}

// TestLogSaysThatOutputIsStored checks the note about output whose sandbox is gone.
func TestLogSaysThatOutputIsStored(t *testing.T) {
	f := newFakeCluster(1, 1)
	stored := api.OutputPart{Stored: &api.StoredOutput{Bytes: 1 << 20, MissingBytes: 3 << 20}}
	f.more["/v1/tasks/"+f.jobs[0].Tasks[0].ID+"/output"] = formatOutput(stored, stdout("last\n"))
	p := openTab(t, f.serve(t).URL+"/#/jobs/train-000")
	p.awaitText("The sandbox is gone: the output was stored when the task ended, its last 1 MiB, without 3 MiB before. End of the output.")
	p.awaitTrue("document.querySelector('pre.log').textContent === 'last\\n'")
}
