package web_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// serveBusyCluster serves a cluster with content on each page.
func serveBusyCluster(t *testing.T) *httptest.Server {
	t.Helper()
	f := newFakeCluster(24, 30)
	first := f.agents[0]
	f.agents[1].Cordoned, f.agents[2].Draining = "new racks", true
	endJobs(f.jobs[25:])
	checkStates(&f.jobs[0])
	f.more["/v1/agents/"+first.ID] = api.AgentDetail{AgentSummary: first, Devices: gpuDevices(f.gpus[:8])}
	for _, t := range f.jobs[0].Tasks {
		f.more["/v1/tasks/"+t.ID+"/output"] = formatOutput(stdout(strings.Repeat("epoch 17: loss 0.1934, 1240 images/s, learning rate 0.000312\n", 60)),
			stderr("UserWarning: the last batch has 17 of 64 images\n"), stdout("epoch 18: loss 0.1931, 1238 images/s, learning rate 0.000308\n"))
	}
	serveFiles(f, f.jobs[0].Tasks)
	serveRuns(f, &f.jobs[27])
	serveUpdate(f, &f.jobs[3])
	f.more["/v1/notifications"] = api.NotificationList{Notifications: []api.NotificationView{
		{ID: "5b2f0c8e1d", To: "https://hooks.example.org/…", Event: job.NotifyFailure, Time: time.Now().Add(-25 * time.Hour),
			Job: "train-027", Run: 2, Role: "research", Owner: "ada", State: api.NotificationFailed, Attempts: 30,
			Error: "it answers 503", GivenUp: time.Now().Add(-time.Hour)},
		{ID: "7c1d9a6f01", To: "mailto:ada@example.org", Event: job.NotifyEnd, Time: time.Now().Add(-3 * time.Minute),
			Job: "train-026", Run: 1, Owner: "ada", State: api.NotificationPending, Attempts: 4,
			Error: "dial tcp: lookup mail.example.org: no such host", Next: time.Now().Add(40 * time.Second)},
	}}
	f.more["/v1/queue"] = map[string]any{"jobs": []map[string]any{
		{"position": 1, "name": "train-002", "role": "prod", "priority": 5, "submitted": f.jobs[2].Submitted, "tasks": 1,
			"waiting": 1, "gpus": "2 x A100", "reason": f.jobs[2].WaitReason, "start": fakeStart(2*time.Hour + time.Minute)},
		{"position": 2, "name": "train-005", "role": "research/vision", "priority": 0, "submitted": f.jobs[5].Submitted,
			"tasks": 8, "waiting": 3, "gpus": "1 x H100", "reason": f.jobs[5].WaitReason},
	}}
	f.more["/v1/roles"] = map[string]any{"roles": []map[string]any{
		{"name": "research/vision", "weight": 1, "order": "fifo", "policy": "headroom", "backfill": true,
			"quota": map[string]int{"V100": 8, "*": 16}, "quota_set": true,
			"held": map[string]float64{"V100": 8, "A100": 4.5, "*": 12.5}, "waiting": 2},
		{"name": "prod", "weight": 2, "order": "fifo", "policy": "binpack", "backfill": false, "quota": map[string]int{},
			"held": map[string]float64{"A100": 12, "*": 12}, "deserved": map[string]int{"A100": 8},
			"host":     map[string]any{"cpus": map[string]float64{"held": 12.5, "demanded": 20, "deserved": 32}, "mem": map[string]float64{"held": 5120, "demanded": 5120}},
			"entitled": map[string]float64{"A100": 12, "*": 12}, "waiting": 0, "waiting_jobs": 1, "waiting_jobs_limit": 9,
			"user_limits": map[string]any{"each": map[string]any{"gpus": map[string]int{"A100": 8, "*": 10}, "running_jobs": 1}, "users": []map[string]any{
				{"user": "ada", "limits": map[string]any{"waiting_jobs": 2}, "held": map[string]float64{"*": 12}, "running_jobs": 3, "waiting_jobs": 1},
			}}},
	}}
	f.more["/v1/jobs/train-000/usage"] = newJobUsage()
	f.more["/v1/jobs/train-000/history"] = api.JobHistory{Events: []api.TaskEvent{
		{Time: f.jobs[0].Submitted, Job: "train-000", State: job.Waiting, By: "ada", Message: "submitted by ada"},
		{Time: f.jobs[0].Submitted.Add(time.Second), Job: "train-000", State: job.Running, Change: job.EditChange, By: "ada",
			Message: "edited by ada: gpus 8 to 4, env"},
		{Time: f.jobs[0].Submitted.Add(time.Minute), Job: "train-000", Task: "train-000.2.1.c8dbz5x2q6a5", State: job.Failed, Message: "exited with status 137"},
	}}
	next := time.Now().Add(5 * time.Hour).Round(time.Hour)
	nightly := job.Spec{
		Name:     "nightly",
		Role:     "research",
		Owner:    "ada",
		Request:  gpu.Request{GPUs: 4},
		Schedule: &job.Schedule{Cron: "0 3 * * *", TimeZone: "Europe/Berlin"},
	}
	f.more["/v1/schedules"] = api.ScheduleList{Schedules: []api.ScheduleView{
		{Spec: nightly, NextRun: next,
			Runs: []api.ScheduledRun{{Job: "nightly-20261122-0300", Due: next.Add(-48 * time.Hour)}, {Job: "nightly-20261123-0300", Due: next.Add(-24 * time.Hour)}},
			Note: "the run before it has not ended"},
	}}
	f.more["/v1/accounting"] = newAccountingReport()
	f.more["POST /v1/validate"] = api.ValidatedJob{
		Spec:     *f.jobs[0].Spec,
		Warnings: []string{"the job cannot start with the present agents: it needs 16 A100 on one agent; 8 agents have the type, the largest has 8"},
	}
	return f.serve(t)
}

// fakeStart returns an estimate of a start after some time.
func fakeStart(after time.Duration) *api.StartEstimate {
	now := time.Now()
	between := func(low, high float64) api.TimeRange {
		return api.TimeRange{From: now.Add(time.Duration(low * float64(after))), To: now.Add(time.Duration(high * float64(after)))}
	}
	return &api.StartEstimate{Expected: now.Add(after), Within50: between(0.7, 1.5), Within90: between(0.25, 2.5)}
}

// serveFiles serves a sandbox and artifacts of tasks.
func serveFiles(f *fakeAPI, tasks []job.Task) {
	at := time.Now().Add(-time.Hour)
	list := func(files ...api.SandboxFile) api.SandboxList { return api.SandboxList{Files: files} }
	for i := range tasks {
		path := "/v1/tasks/" + tasks[i].ID
		f.more[path+"/files"] = list(
			api.SandboxFile{Name: "metrics.csv", Bytes: 70 << 10, Mode: "644", Modified: at},
			api.SandboxFile{Name: "control.sock", Special: true, Mode: "755", Modified: at},
			api.SandboxFile{Name: "checkpoints", Folder: true, Mode: "755", Modified: at}, api.SandboxFile{Name: "stdout", Bytes: 3720, Mode: "644", Modified: at})
		f.more[path+"/files?path=checkpoints"] = list(api.SandboxFile{
			Name:     "epoch-17.pt",
			Bytes:    371 << 20,
			Mode:     "644",
			Modified: at,
		}, api.SandboxFile{Name: "<b>&note", Bytes: 12, Mode: "600", Modified: at})
		f.more[path+"/file?path=metrics.csv"] = strings.Repeat("epoch,loss\n17,0.1934\n", 70<<10/22)
		f.more[path+"/file?path=checkpoints%2Fepoch-17.pt"] = "PK\x00\x00"
		f.more[path+"/file?path=checkpoints%2F%3Cb%3E%26note"] = "<b>bold</b>\n"
		f.more[path+"/file?path=model%2Fbest.pt"] = "the best weights"
	}
	f.more["/v1/jobs/"+tasks[0].Job+"/artifacts"] = api.ArtifactList{
		Tasks: []api.ArtifactReport{{Index: 2, Copied: at, Files: []api.Artifact{{Path: "model/best.pt",
			Bytes: 371 << 20}}}},
	}
}

// serveRuns makes a job the second run of its name, after one that has failed.
func serveRuns(f *fakeAPI, j *api.JobView) {
	first := *j
	first.Run, first.Submitted = 1, j.Submitted.Add(-24*time.Hour)
	first.Tasks = slices.Clone(j.Tasks)
	first.Tasks[0].ID = "train-first.0.1.x"
	j.Run = 2
	path := "/v1/jobs/" + j.Spec.Name
	f.more[path+"@1"], f.more[path+"@2/runs"] = first, api.JobList{Jobs: []api.JobView{*j, first}}
	f.more["/v1/tasks/"+first.Tasks[0].ID+"/output"] = formatOutput(stdout("the first run\n"))
}

// serveUpdate makes a job a service whose image may be changed.
func serveUpdate(f *fakeAPI, j *api.JobView) {
	j.Spec.Service = &job.Service{}
	const file = "name: train-003\ncommand: [python, serve.py, --port, \"8000\"]\nimage: " +
		"nvcr.io/nvidia/tritonserver:24.%s-py3\ngpus: 2\ngpu_type: [A100]\ncpus: 8\nmem: 32GiB\ntasks: 1\nservice: true\nrole: research\n"
	f.more["/v1/jobs/train-003/file"] = fmt.Sprintf(file, "01")
	f.more["POST /v1/jobs/train-003/validate"] = api.ValidatedJob{Spec: *j.Spec, File: fmt.Sprintf(file, "09"), Warnings: []string{}}
}

// endJobs ends jobs: some have failed, some have finished.
func endJobs(jobs []api.JobView) {
	for i := range jobs {
		j := &jobs[i].Job
		for k := range j.Tasks {
			t := &j.Tasks[k]
			t.State, t.Message = job.Finished, ""
			if i%2 == 0 {
				t.State, t.Message = job.Failed, "exited with status 1"
			}
			t.Launched, t.Ended = j.Submitted, j.Submitted.Add(10*time.Minute)
			t.Changed = t.Ended
		}
		jobs[i] = api.NewJobView(j, "")
	}
}

// checkStates gives a job four tasks of a matrix, each in a different state.
func checkStates(j *api.JobView) {
	j.Spec.Matrix = &job.Matrix{Axes: []job.MatrixAxis{{Name: "rate", Values: []string{"0.1", "0.01"}}, {Name: "seed", Values: []string{"1", "2"}}}}
	j.Spec.Command = append(j.Spec.Command, "--rate", "{{matrix.rate}}", "--note", "it's a \"try\"; $HOME", "--data",
		"/mnt/datasets/imagenet-2012/train/shards-of-1024-images", "")
	for i, state := range []job.State{job.Running, job.Finished, job.Failed, job.Waiting} {
		t := j.Tasks[0]
		t.Index, t.State, t.ID = i, state, fmt.Sprintf("train-000.%d.1.c8dbz5x2q6a5", i)
		switch state {
		case job.Failed:
			t.Message, t.Failures = "exited with status 137: out of memory on the host gpu-000.example.org", 3
		case job.Waiting:
			t.AgentID, t.Hostname, t.DeviceIDs, t.GPUTypes, t.Started = "", "", nil, nil, time.Time{}
		}
		if i == 0 {
			j.Tasks = nil
		}
		j.Tasks = append(j.Tasks, t)
	}
}

func gpuDevices(list []api.GPUView) []gpu.Device {
	all := make([]gpu.Device, len(list))
	for i, g := range list {
		all[i] = gpu.Device{UUID: g.UUID, Model: g.Model, MemMiB: g.MemMiB, Minor: i, NUMA: i / 4, Paths: map[string]gpu.PCIePath{}, NVLinks: map[string]int{}}
		for j, other := range list {
			switch {
			case i == j:
			case i/4 == j/4:
				all[i].NVLinks[other.UUID] = 12
			default:
				all[i].Paths[other.UUID] = gpu.AcrossNUMANodes
			}
		}
	}
	return all
}

// views are the views of the page, each with a text that it shows once it is complete.
var views = []struct {
	name, address, there string
	// open, if it is not empty, is evaluated then, after which opened becomes true.
	open, opened string
}{
	{"overview", "#/",
		"document.querySelectorAll('.map li').length === 24 && document.querySelector('.rows li') && " +
			"document.querySelector('.chart path.area') && !document.querySelector('.numbers').textContent.includes('not measured')",
		"", ""},
	{"queue", "#/queue", "document.querySelectorAll('tbody tr').length === 2", "", ""},
	{"jobs", "#/jobs", "document.querySelectorAll('tbody tr').length === 30", "", ""},
	{"job", "#/jobs/train-000",
		"document.querySelector('pre').textContent.includes('epoch 17') && document.querySelectorAll('.gpus li').length === 2 && " +
			"!document.querySelector('.chart').closest('section').hidden",
		"document.querySelector('details.files').open = true", "document.querySelectorAll('.files tbody tr').length === 5"},
	{"agents", "#/agents", "document.querySelectorAll('tbody tr').length === 24", "", ""},
	{"agent", "#/agents/c1d9a6f0-S0", "document.querySelector('.matrix') && document.querySelectorAll('.gpus li').length === 4", "", ""},
	{"roles", "#/roles",
		"document.querySelectorAll('.role').length === 3 && ['12 held, no quota, deserves 8, entitled to 12', '12.5 CPUs held, deserves 32 · 5 GiB of memory held', " +
			"'1 of at most 9 waiting jobs · each user at most 8 A100, 10 GPUs, 1 running job', 'prod: at most 2 waiting jobs; " +
			"holds 12 GPUs, 3 running, 1 waiting jobs'].every((text) => document.body.textContent.includes(text))",
		"", ""},
	{"schedules", "#/schedules", "document.querySelectorAll('tbody tr').length === 1", "", ""},
	{"usage", "#/usage", "document.querySelectorAll('tbody tr').length === 3 && document.querySelectorAll('.days li').length === 30", "", ""},
	{"submit", "#/submit", "document.querySelector('form.submit')", "", ""},
	{"run", "#/jobs/train-027@1",
		"document.querySelector('pre').textContent.includes('the first run') && document.querySelectorAll('[aria-current] .badge[data-state=FAILED]').length === 2",
		"", ""},
	{"apply", "#/jobs/train-003/apply", "document.querySelector('[name=file]').value",
		"(() => { const file = document.querySelector('[name=file]'); file.value = file.value.replace('24.01', '24.09'); " +
			"file.dispatchEvent(new Event('input')); return true; })()",
		"document.querySelectorAll('.diff ins').length === 1 && !document.querySelector('form .primary').disabled"},
	{"notifications", "#/notifications", "document.querySelectorAll('tbody tr').length === 2", "", ""},
}

// openView shows a view and waits until it is complete.
func (p *browserTab) openView(i int) {
	p.t.Helper()
	v := views[i]
	evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", v.address))
	p.awaitTrue(v.there)
	if v.open != "" {
		evalJS[bool](p, v.open)
		p.awaitTrue(v.opened)
	}
}

// lowContrast lists the texts with a contrast below 4.5 to 1, by the formula of the Web Content
// Accessibility Guidelines.
const lowContrast = `(() => {
	const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
	const mixed = new Map(); // by the colors
	const over = (colours) => {
		const key = colours.join();
		if (mixed.has(key)) return mixed.get(key);
		canvas.fillStyle = '#fff';
		canvas.fillRect(0, 0, 1, 1);
		for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
		mixed.set(key, [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
		return mixed.get(key);
	};
	const grounds = (node) => node ? [...grounds(node.parentElement), getComputedStyle(node).backgroundColor] : [];
	const poor = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const node = walk.currentNode.parentElement;
		if (!walk.currentNode.data.trim() || !node.checkVisibility()) continue;
		const ground = grounds(node);
		const [a, b] = [light(over(ground)), light(over([...ground, getComputedStyle(node).color]))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) poor.add(ratio.toFixed(2) + ' ' + walk.currentNode.data.trim().slice(0, 30));
	}
	return [...poor];
})()`

// splitWords lists the words that are split over two lines, except very long ones.
const splitWords = `(() => {
	const found = new Set();
	const walk = document.createTreeWalker(document.getElementById('main'), NodeFilter.SHOW_TEXT);
	const range = document.createRange();
	while (walk.nextNode()) {
		const node = walk.currentNode;
		if (!node.parentElement.checkVisibility() || node.parentElement.closest('pre, .command')) continue;
		for (const word of node.data.matchAll(/[^\s-]+/g)) {
			if (word[0].length > 26) continue;
			range.setStart(node, word.index);
			range.setEnd(node, word.index + word[0].length);
			if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.add(word[0]);
		}
	}
	return [...found];
})()`

// layoutFaults lists other layout faults of the present view.
const layoutFaults = `(() => {
	const wrong = [];
	const box = (node) => node.getBoundingClientRect();
	const colour = (state) => { const badge = document.querySelector('.badge[data-state="' + state + '"]'); return badge && getComputedStyle(badge).getPropertyValue('--state'); };
	const of = (name) => resolve('var(--' + name + ')');
	const resolve = (value) => { const probe = document.createElement('i'); probe.style.color = value; document.body.append(probe); const c = getComputedStyle(probe).color; probe.remove(); return c; };
	for (const [state, name] of [['RUNNING', 'good'], ['FINISHED', 'accent'], ['WAITING', 'wait'], ['FAILED', 'bad']]) {
		if (colour(state) && resolve(colour(state)) !== of(name)) wrong.push(state + ' is ' + colour(state));
	}
	for (const link of document.querySelectorAll('td a')) if (box(link).height < 24) wrong.push('a link ' + box(link).height + ' px high: ' + link.textContent);
	for (const bars of document.querySelectorAll('.bars')) {
		if (new Set([...bars.children].map((li) => Math.round(box(li.children[1]).left))).size > 1) wrong.push('figures of quotas that are not below each other');
		for (const m of bars.querySelectorAll('meter:not([hidden])')) if ((m.value === m.max) !== (m.value > m.high)) wrong.push('a full quota looks like another');
	}
	for (const bar of document.querySelectorAll('.bars li span + span')) if (bar.textContent === '8 of 8 held') wrong.push('it is not said that a quota is full');
	const command = document.querySelector('.command');
	if (command && box(command).width < 0.9 * box(document.querySelector('#main dl')).width) wrong.push('a narrow command');
	const matrix = document.querySelector('.matrix');
	if (matrix && !(box(matrix).top < box(document.querySelector('.usage')).top)) wrong.push('the topology is below all charts');
	if (matrix?.querySelector('caption')) wrong.push('the words on topology scroll with it');
	return wrong;
})()`

// TestAppearance checks each view in both color schemes, on wide and narrow screens: contrast,
// no split words, and no horizontal scrolling.
func TestAppearance(t *testing.T) {
	p := openTab(t, serveBusyCluster(t).URL)
	for _, scheme := range []string{"light", "dark"} {
		p.setColorScheme(scheme)
		for _, width := range []int64{1920, 1280, 360} {
			p.setSize(width, 900)
			for i, v := range views {
				p.openView(i)
				name := fmt.Sprintf("%s-%s-%d", v.name, scheme, width)
				faults := evalJS[[]string](p, layoutFaults)
				for _, poor := range evalJS[[]string](p, lowContrast) {
					faults = append(faults, "too little contrast: "+poor)
				}
				for _, word := range evalJS[[]string](p, splitWords) {
					faults = append(faults, "a word in two lines: "+word)
				}
				if wide := evalJS[int64](p, "document.documentElement.scrollWidth"); wide > width {
					faults = append(faults, fmt.Sprintf("%d pixels wide, want %d", wide, width))
				}
				for _, fault := range faults {
					t.Errorf("%s: %s", name, fault)
				}
				// A picture takes longer than the checks: the other colors and the widest window have one only to show a fault.
				if len(faults) > 0 || scheme == "light" && width < 1920 {
					p.savePage(name)
				}
			}
		}
	}
}

// TestKeyboard uses the whole page without a mouse.
func TestKeyboard(t *testing.T) {
	p := openTab(t, serveBusyCluster(t).URL)
	p.awaitTrue(views[0].there)
	focused := func() string {
		return evalJS[string](p, "(document.activeElement.ariaLabel || document.activeElement.textContent || document.activeElement.type).trim()")
	}
	press := func(keys string, want string) {
		t.Helper()
		p.runActions(chromedp.KeyEvent(keys))
		if got := focused(); !strings.Contains(got, want) {
			t.Errorf("after %q the focus is on %q, want %q", keys, got, want)
		}
		if !evalJS[bool](p,
			"document.activeElement === document.body || document.activeElement.matches('h2, "+
				"main') || getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
			t.Errorf("the focus on %q is not visible", focused())
		}
	}
	for _, stop := range []string{
		"Skip to the content", "mesos-gpu", "Overview", "Jobs", "Queue", "Agents", "Schedules", "Roles", "Usage", "Notifications", "Submit job", "Account",
		"GPUs in use", "Duty of GPUs in use", "GPUs not offered", "Live jobs", "Waiting tasks", "Failed in 24 hours", "radio", "research", "prod",
		"train-002", "train-005", "train-008", "train-011", "train-014", "All 8 in the queue", "train-025", "train-027", "train-029", "search", "state",
	} {
		press(kb.Tab, stop)
	}
	press(kb.Tab, "gpu-000.example.org: 8 GPUs A100")
	if got := evalJS[[]string](p, "[...document.querySelectorAll('.about:not([hidden]) li')].map((li) => li.textContent)"); len(got) != 8 ||
		!strings.Contains(got[0], "A100 · used · by train-000.0.1") {
		t.Errorf("with the keyboard an agent's GPUs are described as %q", got)
	}
	p.saveScreenshot("about")
	press(kb.ArrowRight, "gpu-001")
	press(kb.ArrowDown, fmt.Sprintf("gpu-%03d", 1+
		evalJS[int](p, `[...document.querySelectorAll('.map li')].findIndex((li, i, all) => li.offsetTop !== all[0].offsetTop)`)))
	press(kb.ArrowUp, "gpu-001")
	press(kb.End, "gpu-023")
	press(kb.ArrowRight, "gpu-023") // the last tile
	press(kb.Home, "gpu-000")
	p.runActions(chromedp.KeyEvent(kb.Enter))
	p.awaitTrue(views[5].there)
	if got := focused(); got != "gpu-000.example.org" {
		t.Errorf("on the agent's page the focus is on %q", got)
	}
	for _, stop := range []string{"Cordon", "Drain", "train-000.0.1"} {
		press(kb.Tab, stop)
	}
	p.runActions(chromedp.KeyEvent(kb.Enter))
	p.awaitTrue(views[3].there)
	for _, stop := range []string{"Edit", "Hold", "Requeue", "Kill"} {
		press(kb.Tab, stop)
	}
	p.runActions(chromedp.KeyEvent(kb.Enter))
	p.awaitTrue("document.querySelector('dialog[open]')")
	press(kb.Tab, "Cancel")
	p.runActions(chromedp.KeyEvent(kb.Escape))
	p.awaitTrue("!document.querySelector('dialog')")
	if got := focused(); got != "Kill" {
		t.Errorf("after the dialog the focus is on %q", got)
	}
	for _, stop := range []string{
		"0", "gpu-000", "1", "gpu-000", "2", "gpu-000", "3", "Stop task", "radio", "checkbox", "checkbox", "search",
		"Download", "Output",
	} {
		press(kb.Tab, stop)
	}
}
