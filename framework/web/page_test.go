package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/master"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// startScheduler starts a real scheduler with a fake master and returns its address.
func startScheduler(t *testing.T, c *mesostest.FakeCluster, options ...func(*framework.SchedulerConfig)) (url string, api *client.Client) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	ready, ended := make(chan string, 1), make(chan error, 1)
	cfg := framework.SchedulerConfig{
		Master: strings.TrimPrefix(c.URL(), "http://"), APIAddr: "127.0.0.1:0", ExecutorPath: "/usr/bin/mesos-gpu",
		JournalPath: filepath.Join(t.TempDir(), "journal.db"), Log: log, Ready: func(addr string) { ready <- addr },
	}
	for _, change := range options {
		change(&cfg)
	}
	s, err := framework.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-ready:
		if api, err = client.New(addr); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(api.Close)
		return "http://" + addr, api
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return "", nil
	}
}

func submitJob(t *testing.T, api *client.Client, name string, gpus int, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	s := job.Spec{Name: name, Tasks: 1, Request: gpu.Request{GPUs: gpus}, Command: command}
	if _, err := api.SubmitJob(ctx, s); err != nil {
		t.Fatal(err)
	}
}

// awaitTask waits until the job's task has the state and returns its id.
func awaitTask(t *testing.T, api *client.Client, name string, state job.State) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	for ev, err := range api.StreamEvents(ctx, name) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.State == state {
			return ev.Task
		}
	}
	t.Fatal(errors.New("the events ended"))
	return ""
}

// TestJobLifecycle checks that the page shows a job of a real scheduler from submission to end,
// including its log, without a reload.
func TestJobLifecycle(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	url, api := startScheduler(t, c)
	p := openTab(t, url+"/#/jobs")
	p.awaitText("No job.")
	evalJS[bool](p, "window.sameDocument = true")
	submitJob(t, api, "train", 1, "python", "train.py")
	p.awaitTrue(`document.querySelector('td[data-state="RUNNING"]')`)
	id := awaitTask(t, api, "train", job.Running)
	path := master.SandboxFilePath("framework-1", id, "stdout")
	c.SetFile(path, "epoch 1\n")
	train, err := api.GetJob(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	c.SetFile(master.SandboxFilePath("framework-1", id, gpu.UsageFile),
		fmt.Sprintf(`{"time":%q,"devices":[{"uuid":%q,"duty":0.42}]}`, time.Now().Format(time.RFC3339Nano), train.Tasks[0].DeviceIDs[0]))
	p.awaitTrue(`document.querySelector('a[href="#/jobs/train"]')`)
	evalJS[bool](p, `document.querySelector('a[href="#/jobs/train"]').click() ?? true`)
	p.awaitText("epoch 1")
	p.awaitText("python train.py")
	p.awaitText("Duty 42 %")
	c.SetFile(path, "epoch 1\nepoch 2\n")
	p.awaitText("epoch 2")
	p.saveScreenshot("job")
	evalJS[bool](p, `(location.hash = '#/'), true`)
	p.awaitTrue(`document.querySelectorAll('.map .cell.used').length === 1 && document.querySelectorAll('.map .cell.free').length === 1`)
	submitJob(t, api, "more", 2, "true")
	p.awaitText("2 free GPUs on one agent")
	c.EndTask(id, mesos.TASK_FAILED, "out of memory", "137")
	p.awaitTrue(`!document.querySelector('.map .cell.used')`)
	evalJS[bool](p, `(location.hash = '#/jobs/train'), true`)
	p.awaitText("out of memory")
	p.awaitTrue(`[...document.querySelectorAll('dd')].some((d) => d.textContent === '137')`)
	p.awaitText("End of the output.")
	if !evalJS[bool](p, "window.sameDocument === true") {
		t.Error("the page was loaded again")
	}
}

// TestTextIsNotMarkup checks that names, commands, messages and output, which are untrusted, are
// shown as text.
func TestTextIsNotMarkup(t *testing.T) {
	const hostile = `<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>`
	c := mesostest.NewCluster(t, 2)
	url, api := startScheduler(t, c)
	submitJob(t, api, "train", 1, "echo", hostile)
	id := awaitTask(t, api, "train", job.Running)
	c.SetFile(master.SandboxFilePath("framework-1", id, "stdout"), "said "+hostile)
	c.EndTask(id, mesos.TASK_FAILED, "message "+hostile, "1")
	p := openTab(t, url+"/#/jobs/train")
	for _, part := range []string{"echo '" + hostile + "'", "said " + hostile, "message " + hostile} {
		p.awaitText(part)
	}
	for _, address := range []string{"#/jobs/" + hostile, "#/agents/" + hostile, "#/" + hostile, "#/jobs/%zz", "#/jobs/javascript:alert(1)"} {
		evalJS[bool](p, "(location.hash = "+strconv.Quote(address)+"), true")
		p.awaitTrue("document.querySelector('h2')")
	}
	if evalJS[bool](p, "window.hacked === true || document.querySelector('main img, main script') !== null") {
		t.Error("text became markup")
	}
}

// TestPollingWithoutEventStream checks that the page marks old data and recovers by itself.
func TestPollingWithoutEventStream(t *testing.T) {
	f := newFakeCluster(2, 3)
	url := f.serve(t).URL
	p := openTab(t, url)
	p.awaitTrue(`document.getElementById('stream').textContent === 'live'`)
	p.awaitTrue("document.querySelectorAll('.map li').length === 2")
	if evalJS[bool](p, "!document.getElementById('banner').hidden") {
		t.Errorf("a banner while all is well: %s", p.pageText())
	}
	f.setFailing(true)
	p.awaitText("Out of date: ")
	p.awaitText("the scheduler is starting: ask again")
	p.saveScreenshot("stale")
	if got := evalJS[string](p, "document.getElementById('banner').ariaLive"); got != "polite" {
		t.Errorf("the accessible text of the banner is %q", got)
	}
	f.jobs = f.jobs[:1]
	f.setFailing(false)
	p.awaitTrue("document.getElementById('banner').hidden")
	p.awaitTrue("document.querySelector('.numbers').innerText.replace(/\\s+/g, ' ').includes('Live jobs 1 ')")
}

// TestStandby checks that a standby's page shows the leader and the age of its data.
func TestStandby(t *testing.T) {
	f := newFakeCluster(1, 1)
	f.age, f.health.Role, f.health.LeaderURL, f.health.Connected = "75", "standby", "http://10.0.0.7:8080", false
	p := openTab(t, f.serve(t).URL)
	p.awaitText("This scheduler stands by; http://10.0.0.7:8080 leads. Its copy is 1 min old.")
}

// TestToken checks that the page sends a token to a scheduler that requires one, and that no URL
// contains it.
func TestToken(t *testing.T) {
	f := newFakeCluster(1, 1)
	f.token = "s3cret"
	p := openTab(t, f.serve(t).URL)
	p.awaitText("requires a token")
	if !evalJS[bool](p, `(() => {
		const form = document.querySelector('#sign-in form');
		form.elements.token.value = 's3cret\u20ac';
		form.requestSubmit();
		return form.elements.token.validity.patternMismatch && form.elements.token.title !== '' && sessionStorage.length === 0;
	})()`) {
		t.Error("an invalid token is accepted, or rejected without a reason")
	}
	give := func(token string) {
		evalJS[bool](p, `(() => {
			const form = document.querySelector('#sign-in form');
			form.elements.token.value = '`+token+`';
			form.requestSubmit();
			return true;
		})()`)
	}
	give("guessed")
	p.awaitText("rejected this token: enter another")
	if !evalJS[bool](p, "document.activeElement.name === 'token' && document.activeElement.value === ''") {
		t.Error("after a wrong token the input is not focused")
	}
	give("s3cret")
	p.awaitTrue("document.querySelectorAll('.map li').length === 1")
	if evalJS[bool](p, "location.href.includes('s3cret') || !document.getElementById('sign-in').hidden") {
		t.Error("the token is in the URL, or is requested again")
	}
}

// TestAgentsWithoutDeviceIDs checks agents where Mesos selects the devices: as many cells are
// used as tasks hold GPUs, of this and of other frameworks.
func TestAgentsWithoutDeviceIDs(t *testing.T) {
	f := newFakeCluster(1, 1)
	for i := range f.gpus {
		f.gpus[i].State, f.gpus[i].Shared = "", nil
	}
	f.agents[0].GPUsFree = 5
	f.jobs[0].Tasks[0].DeviceIDs = nil
	p := openTab(t, f.serve(t).URL)
	p.awaitTrue("['used', 'other', 'free'].map((s) => document.querySelectorAll('.map .cell.' + s).length).join() === '2,1,5'")
}

// withoutPeriodicRequests is a script that stops the page's timer of about a minute, so that only events and actions update it.
const withoutPeriodicRequests = `(() => { const set = window.setInterval; window.setInterval = (f, ms) => ms < 40000 ? set(f, ms) : 0; })()`

// TestInventoryEventsUpdatePage checks that an unhealthy GPU is shown with the fault soon after
// the master lists it, and is removed when it recovers. The page reacts to the event and does
// not wait for the periodic request.
func TestInventoryEventsUpdatePage(t *testing.T) {
	c := mesostest.NewCluster(t, 3)
	url, _ := startScheduler(t, c)
	p := openBlankTab(t)
	p.runBeforePage(withoutPeriodicRequests)
	p.runBeforePage("Math.random = () => 0") // the random delay of requests after an event
	p.runActions(chromedp.Navigate(url))
	cells := func(want string) {
		t.Helper()
		p.awaitTrue(`['free', 'sick', 'cordoned'].map((s) => document.querySelectorAll('.map .cell.' + s).length).join() === '` + want + `'`)
	}
	cells("3,0,0")
	c.WithholdDevices(gpu.WithheldDevice{
		UUID:  "GPU-1",
		Cause: gpu.WithheldUnhealthy,
		Note:  "XID 79 <b>lost</b>",
	}, gpu.WithheldDevice{UUID: "GPU-2", Cause: gpu.WithheldCordoned, Note: "new fans"})
	cells("1,1,1")
	p.awaitTrue(`document.querySelector('.map .cell.sick').title.includes('GPU is sick: XID 79 <b>lost</b>')`)
	p.awaitTrue(`document.querySelector('.map li a').ariaLabel.includes('1 sick, 1 cordoned')`)
	p.saveScreenshot("inventory")
	evalJS[bool](p, `(location.hash = '#/agents/agent-1'), true`)
	p.awaitText("GPU is sick: XID 79 <b>lost</b>")
	p.awaitText("GPU is cordoned: new fans")
	evalJS[bool](p, `(location.hash = '#/'), true`)
	c.WithholdDevices()
	cells("3,0,0")
}

// TestInventoryRequestsAreLimited checks that many simultaneous changes cause one later request.
func TestInventoryRequestsAreLimited(t *testing.T) {
	f := newFakeCluster(2, 2)
	f.inventoryChanges = make(chan struct{})
	p := openTab(t, f.serve(t).URL)
	p.awaitTrue("document.querySelectorAll('.map li').length === 2")
	for range 1000 {
		f.inventoryChanges <- struct{}{}
	}
	before := f.lists.Load()
	if before > 2 {
		t.Errorf("%d requests for agents after 1,000 simultaneous changes", before)
	}
	f.mu.Lock()
	f.agents = f.agents[:1]
	f.mu.Unlock()
	f.inventoryChanges <- struct{}{}
	p.awaitTrue("document.querySelectorAll('.map li').length === 1")
	if got := f.lists.Load(); got > before+1 {
		t.Errorf("%d requests for agents", got)
	}
}

// TestNoMaster checks that jobs are shown without the master's list of agents.
func TestNoMaster(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	url, api := startScheduler(t, c)
	submitJob(t, api, "train", 1, "true")
	awaitTask(t, api, "train", job.Running)
	c.Close()
	p := openTab(t, url)
	p.awaitText("The master does not list its agents")
	p.awaitTrue("document.querySelector('.numbers').textContent.includes('1 task running')")
	evalJS[bool](p, `(location.hash = '#/jobs/train'), true`)
	p.awaitTrue(`document.querySelector('td[data-state="RUNNING"]')`)
}
