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

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/master"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// scheduler starts a real one on a small master and returns its address.
func scheduler(t *testing.T, c *mesostest.Cluster) (url string, api *client.Client) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	ready, ended := make(chan string, 1), make(chan error, 1)
	s, err := framework.New(framework.Config{
		Master: strings.TrimPrefix(c.URL(), "http://"), APIAddr: "127.0.0.1:0", ExecutorPath: "/usr/bin/mesos-gpu",
		JournalPath: filepath.Join(t.TempDir(), "journal.db"), Log: log, Ready: func(addr string) { ready <- addr },
	})
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

func submit(t *testing.T, api *client.Client, name string, gpus int, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := job.Spec{Name: name, Tasks: 1, Request: gpu.Request{GPUs: gpus}, Command: command}
	if _, err := api.Submit(ctx, s); err != nil {
		t.Fatal(err)
	}
}

// taskOf waits for the job's task to be in that state and returns its id.
func taskOf(t *testing.T, api *client.Client, name string, state job.State) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for ev, err := range api.Events(ctx, name) {
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

// TestAJobsLife: the page shows a job of a real scheduler from its submission
// to its end, its log too, and is not loaded again.
func TestAJobsLife(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	url, api := scheduler(t, c)
	p := open(t, url+"/#/jobs")
	p.shows("No job.")
	eval[bool](p, "window.sameDocument = true")
	submit(t, api, "train", 1, "python", "train.py")
	p.await(`document.querySelector('td[data-state="RUNNING"]')`)
	id := taskOf(t, api, "train", job.Running)
	path := master.SandboxFile("framework-1", id, "stdout")
	c.SetFile(path, "epoch 1\n")
	train, err := api.Job(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	c.SetFile(master.SandboxFile("framework-1", id, gpu.UsageFile),
		fmt.Sprintf(`{"time":%q,"devices":[{"uuid":%q,"duty":0.42}]}`, time.Now().Format(time.RFC3339Nano), train.Tasks[0].DeviceIDs[0]))
	p.await(`document.querySelector('a[href="#/jobs/train"]')`)
	eval[bool](p, `document.querySelector('a[href="#/jobs/train"]').click() ?? true`)
	p.shows("epoch 1")
	p.shows("python train.py")
	p.shows("Duty 42 %")
	c.SetFile(path, "epoch 1\nepoch 2\n")
	p.shows("epoch 2")
	p.keep("job")
	eval[bool](p, `(location.hash = '#/'), true`)
	p.await(`document.querySelectorAll('.map .cell.used').length === 1 && document.querySelectorAll('.map .cell.free').length === 1`)
	submit(t, api, "more", 2, "true")
	p.shows("2 free GPUs on one agent")
	c.End(id, mesos.TASK_FAILED, "out of memory", "137")
	p.await(`!document.querySelector('.map .cell.used')`)
	eval[bool](p, `(location.hash = '#/jobs/train'), true`)
	p.shows("out of memory")
	p.await(`[...document.querySelectorAll('dd')].some((d) => d.textContent === '137')`)
	p.shows("This is all of it.")
	if !eval[bool](p, "window.sameDocument === true") {
		t.Error("the page was loaded again")
	}
}

// TestHostileText: names, commands, messages and output are other people's,
// and stay text.
func TestHostileText(t *testing.T) {
	const hostile = `<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>`
	c := mesostest.NewCluster(t, 2)
	url, api := scheduler(t, c)
	submit(t, api, "train", 1, "echo", hostile)
	id := taskOf(t, api, "train", job.Running)
	c.SetFile(master.SandboxFile("framework-1", id, "stdout"), "said "+hostile)
	c.End(id, mesos.TASK_FAILED, "message "+hostile, "1")
	p := open(t, url+"/#/jobs/train")
	for _, part := range []string{"echo '" + hostile + "'", "said " + hostile, "message " + hostile} {
		p.shows(part)
	}
	for _, address := range []string{"#/jobs/" + hostile, "#/agents/" + hostile, "#/" + hostile, "#/jobs/%zz", "#/jobs/javascript:alert(1)"} {
		eval[bool](p, "(location.hash = "+strconv.Quote(address)+"), true")
		p.await("document.querySelector('h2')")
	}
	if eval[bool](p, "window.hacked === true || document.querySelector('main img, main script') !== null") {
		t.Error("text became markup")
	}
}

// TestWithoutStream: the page says that what it shows is old, and mends itself.
func TestWithoutStream(t *testing.T) {
	f := cluster(2, 3)
	url := f.serve(t).URL
	p := open(t, url)
	p.await(`document.getElementById('stream').textContent === 'live'`)
	p.await("document.querySelectorAll('.map li').length === 2")
	if eval[bool](p, "!document.getElementById('banner').hidden") {
		t.Errorf("a banner while all is well: %s", p.text())
	}
	f.fail(true)
	p.shows("Out of date: ")
	p.shows("the scheduler is starting: ask again")
	p.keep("stale")
	if got := eval[string](p, "document.getElementById('banner').ariaLive"); got != "polite" {
		t.Errorf("the banner is %q to those who hear it", got)
	}
	f.jobs = f.jobs[:1]
	f.fail(false)
	p.await("document.getElementById('banner').hidden")
	p.await("document.querySelector('.counts').textContent.includes('1 live jobs')")
}

// TestStandby: a copy says whose it is and how old.
func TestStandby(t *testing.T) {
	f := cluster(1, 1)
	f.age, f.health.Role, f.health.Leading, f.health.Connected = "75", "standby", "http://10.0.0.7:8080", false
	p := open(t, f.serve(t).URL)
	p.shows("This scheduler stands by; http://10.0.0.7:8080 leads. Its copy is 1 min old.")
}

// TestToken: a scheduler that wants to know who asks is given a token, which
// is in no address.
func TestToken(t *testing.T) {
	f := cluster(1, 1)
	f.token = "s3cret"
	p := open(t, f.serve(t).URL)
	p.shows("give a token")
	if !eval[bool](p, `(() => {
		const form = document.getElementById('sign-in');
		form.elements.token.value = 's3cret\u20ac';
		form.requestSubmit();
		return form.elements.token.validity.patternMismatch && form.elements.token.title !== '' && sessionStorage.length === 0;
	})()`) {
		t.Error("a token that no header can hold is taken, and it is not told why not")
	}
	give := func(token string) {
		eval[bool](p, `(() => {
			const form = document.getElementById('sign-in');
			form.elements.token.value = '`+token+`';
			form.requestSubmit();
			return true;
		})()`)
	}
	give("guessed")
	p.shows("does not take that token: give another")
	if !eval[bool](p, "document.activeElement.name === 'token' && document.activeElement.value === ''") {
		t.Error("after a wrong token the next is not to be typed at once")
	}
	give("s3cret")
	p.await("document.querySelectorAll('.map li').length === 1")
	if eval[bool](p, "location.href.includes('s3cret') || !document.getElementById('sign-in').hidden") {
		t.Error("the token is in the address, or asked for again")
	}
}

// TestAgentsByCount: where Mesos chooses the devices, as many cells are used
// as tasks hold, ours and those of other frameworks.
func TestAgentsByCount(t *testing.T) {
	f := cluster(1, 1)
	for i := range f.gpus {
		f.gpus[i].State, f.gpus[i].Shared = "", nil
	}
	f.agents[0].GPUsFree = 5
	f.jobs[0].Tasks[0].DeviceIDs = nil
	p := open(t, f.serve(t).URL)
	p.await("['used', 'other', 'free'].map((s) => document.querySelectorAll('.map .cell.' + s).length).join() === '2,1,5'")
}

// TestInventoryIsHeard: a GPU that falls sick is on the map soon after the
// master lists it so, with what was seen of it, and gone from there when it is
// back: the page hears of it, and does not wait for its minute.
func TestInventoryIsHeard(t *testing.T) {
	c := mesostest.NewCluster(t, 3)
	url, _ := scheduler(t, c)
	p := open(t, url)
	cells := func(want string) {
		t.Helper()
		p.await(`['free', 'sick', 'cordoned'].map((s) => document.querySelectorAll('.map .cell.' + s).length).join() === '` + want + `'`)
	}
	cells("3,0,0")
	began := time.Now()
	c.Withhold(gpu.Withheld{UUID: "GPU-1", Cause: gpu.Sick, Note: "XID 79 <b>lost</b>"}, gpu.Withheld{UUID: "GPU-2", Cause: gpu.Cordoned, Note: "new fans"})
	cells("1,1,1")
	p.await(`document.querySelector('.map .cell.sick').title.includes('GPU is sick: XID 79 <b>lost</b>')`)
	p.await(`document.querySelector('.map li a').ariaLabel.includes('1 sick, 1 cordoned')`)
	p.keep("inventory")
	eval[bool](p, `(location.hash = '#/agents/agent-1'), true`)
	p.shows("GPU is sick: XID 79 <b>lost</b>")
	p.shows("GPU is cordoned: new fans")
	eval[bool](p, `(location.hash = '#/'), true`)
	c.Withhold()
	cells("3,0,0")
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("the page knew of two changes after %s: it asks by itself once a minute", took)
	}
}

// TestInventoryIsAskedForSeldom: of many changes in a moment a page asks for one,
// later.
func TestInventoryIsAskedForSeldom(t *testing.T) {
	f := cluster(2, 2)
	f.news = make(chan struct{})
	p := open(t, f.serve(t).URL)
	p.await("document.querySelectorAll('.map li').length === 2")
	for range 1000 {
		f.news <- struct{}{}
	}
	before := f.lists.Load()
	if before > 2 {
		t.Errorf("asked %d times for agents by 1,000 changes in a moment", before)
	}
	f.mu.Lock()
	f.agents = f.agents[:1]
	f.mu.Unlock()
	f.news <- struct{}{}
	p.await("document.querySelectorAll('.map li').length === 1")
	if got := f.lists.Load(); got > before+1 {
		t.Errorf("asked %d times", got)
	}
}

// TestNoMaster: without the master's list the jobs are still shown.
func TestNoMaster(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	url, api := scheduler(t, c)
	submit(t, api, "train", 1, "true")
	taskOf(t, api, "train", job.Running)
	c.Close()
	p := open(t, url)
	p.shows("The master does not tell its agents")
	p.await("document.querySelector('.counts').textContent.includes('1 running tasks')")
	eval[bool](p, `(location.hash = '#/jobs/train'), true`)
	p.await(`document.querySelector('td[data-state="RUNNING"]')`)
}
