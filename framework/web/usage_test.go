package web_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// layoutProblems serves a cluster in which each task of train-000 has another problem with its
// GPUs. All of them are on the first agent.
func layoutProblems(t *testing.T) string {
	t.Helper()
	f := newFakeCluster(4, 3)
	first := f.agents[0]
	f.more["/v1/agents/"+first.ID] = api.AgentDetail{AgentSummary: first, Devices: gpuDevices(f.gpus[:8])}
	j := &f.jobs[0]
	whole := j.Tasks[0]
	j.Tasks, f.usageOverrides = nil, map[string]func(*api.TaskUsage){}
	for i, odd := range []func(*api.TaskUsage){
		func(*api.TaskUsage) {},
		func(u *api.TaskUsage) { // no values for five minutes, and idle since then
			for d := range u.Devices {
				past := &u.History.Devices[d]
				for n, age := range u.History.AgesSeconds {
					switch zero := 0.; {
					case age < 300:
						past.Duty[n], u.Devices[d].Duty = &zero, &zero
					case age < 600:
						past.Duty[n], past.MemUsedMiB[n] = nil, nil
					}
				}
			}
		},
		func(u *api.TaskUsage) { u.Note = "stale: the agent reports nothing new" },
		func(u *api.TaskUsage) { // no values
			for d := range u.Devices {
				u.Devices[d] = gpu.DeviceUsage{UUID: u.Devices[d].UUID}
			}
			u.History, u.AgeSeconds, u.Note = nil, nil, "the agent reports no GPU usage: mesos-gpu agent does not run there, or has not measured yet"
		},
		func(u *api.TaskUsage) { // a share of a failed, simulated GPU without history
			throttled := 42.
			u.Simulated = true
			u.Devices = u.Devices[:1]
			u.Devices[0].Shared, u.Devices[0].ThrottledSeconds, u.Devices[0].Health = true, &throttled, gpu.Failed
			u.History.AgesSeconds = u.History.AgesSeconds[59:]
			u.History.Devices[0].Duty, u.History.Devices[0].MemUsedMiB = u.History.Devices[0].Duty[59:], u.History.Devices[0].MemUsedMiB[59:]
			u.Devices[0].Duty, u.Devices[0].MemUsedMiB = nil, nil
		},
	} {
		task := whole
		task.Index, task.ID = i, strings.Replace(whole.ID, ".0.", fmt.Sprintf(".%d.", i), 1)
		task.DeviceIDs = []string{f.gpus[i%4*2].UUID, f.gpus[i%4*2+1].UUID}
		f.usageOverrides[task.ID] = odd
		j.Tasks = append(j.Tasks, task)
	}
	j.Spec.Tasks = len(j.Tasks)
	f.more["/v1/tasks/"+whole.ID+"/output"] = formatOutput(stdout(strings.Repeat("epoch 17: loss 0.1934, 1240 images/s, learning rate 0.000312\n", 60)))
	return f.serve(t).URL
}

// TestUsageCharts checks the charts of a job's and of an agent's tasks, on wide and narrow
// screens, light and dark, and their text.
func TestUsageCharts(t *testing.T) {
	p := openTab(t, layoutProblems(t))
	for _, scheme := range []string{"light", "dark"} {
		p.setColorScheme(scheme)
		for _, width := range []int64{1280, 360} {
			p.setSize(width, 2600)
			for name, address := range map[string]string{"job": "#/jobs/train-000", "agent": "#/agents/c1d9a6f0-S0"} {
				evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", address))
				p.awaitTrue("document.querySelectorAll('.gpus li').length === 9")
				name = fmt.Sprintf("%s-%s-%d", name, scheme, width)
				p.saveScreenshot(name)
				if poor := evalJS[[]string](p, lowContrast); len(poor) > 0 {
					t.Errorf("%s: too little contrast: %q", name, poor)
				}
				if wide := evalJS[int64](p, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s: %d pixels wide, want %d", name, wide, width)
				}
				if small := evalJS[float64](p,
					"Math.min(...[...document.querySelectorAll('.spark svg')].filter((s) => s.checkVisibility()).map((s) => s.getBoundingClientRect().width))"); small < 180 {
					t.Errorf("%s: a chart is %g pixels wide, want 180", name, small)
				}
			}
		}
	}
}

// chartTexts returns the accessible text of each card's charts, and the text below them.
const chartTexts = `[...document.querySelectorAll('.gpus li')].map((li) => [...li.querySelectorAll('svg')].filter((s) => s.checkVisibility()).map((s) => s.ariaLabel)
	.concat([li.querySelector('.why').textContent, li.querySelector('.more').textContent]).join(' | '))`

// TestUsageInWords checks that all known values, and only those, are available as text.
func TestUsageInWords(t *testing.T) {
	p := openTab(t, layoutProblems(t)+"/#/jobs/train-000")
	p.awaitTrue("document.querySelectorAll('.gpus li').length === 9")
	got := evalJS[[]string](p, chartTexts)
	for i, want := range map[int]string{
		0: "Memory now 60.8 GiB of 80 GiB; in the last 15 minutes 5.3 GiB to 60.8 GiB, on average",
		2: "Duty now 0 %; in the last 15 minutes 0 % to ",
		4: "Duty now not known; in the last 15 minutes ",
		6: "the agent reports no GPU usage: mesos-gpu agent does not run there, or has not measured yet | ",
		8: "Duty of the whole GPU now not known; in the last minute ",
	} {
		if !strings.HasPrefix(got[i], want) && !strings.Contains(got[i], " | "+want) {
			t.Errorf("card %d has the text %q, want %q", i, got[i], want)
		}
	}
	for i, want := range map[int]string{4: "| stale: the agent reports nothing new | ", 8: " °C, failed, held to its part for 42 seconds"} {
		if !strings.HasSuffix(got[i], want) {
			t.Errorf("card %d ends %q, want %q", i, got[i], want)
		}
	}
	if !strings.Contains(got[8], "| simulated |") {
		t.Errorf("made-up figures: %q", got[8])
	}
	// The line has a gap where values are missing for minutes.
	if lines := evalJS[[]int](p,
		`[...document.querySelectorAll('.gpus .line')].map((l) => l.getAttribute('d').split('M').length - 1)`); lines[0] != 1 || lines[4] != 2 || lines[12] != 0 {
		t.Errorf("line segments: %v, want 1 of the first GPU, 2 of the third, 0 of the seventh", lines)
	}
	// The scale ranges from 0 to the total.
	if ends := evalJS[string](p,
		"[...document.querySelectorAll('.gpus li:first-child .ends')].map((e) => e.innerText.replace(/\\s+/g, ' ')).join('; ')"); ends != "100 % 0; 80 GiB 0" {
		t.Errorf("the scales are %q", ends)
	}
}

// TestUsageOfManyGPUs checks that a job with more than 16 GPUs shows those of the chosen task,
// and none if that task does not run.
func TestUsageOfManyGPUs(t *testing.T) {
	f := newFakeCluster(4, 1)
	j := &f.jobs[0]
	whole := j.Tasks[0]
	j.Tasks = nil
	for i := range 12 {
		task := whole
		task.Index, task.ID = i, fmt.Sprintf("train-000.%d.1.x", i)
		if i == 11 {
			task.State = job.Failed
		}
		j.Tasks = append(j.Tasks, task)
	}
	p := openTab(t, f.serve(t).URL+"/#/jobs/train-000/tasks/train-000.3.1.x")
	p.awaitTrue("document.querySelectorAll('.gpus li').length === 2 && document.querySelector('.gpus .head').textContent.startsWith('Task 3 on')")
	evalJS[bool](p, "(location.hash = '#/jobs/train-000/tasks/train-000.11.1.x'), true")
	p.awaitText("The task has no GPU now.")
}

// TestUsageWithoutTasks checks that jobs without running tasks have no charts, and that a
// standby refers to the leader.
func TestUsageWithoutTasks(t *testing.T) {
	f := newFakeCluster(2, 3)
	url := f.serve(t).URL
	p := openTab(t, url+"/#/jobs/train-002")
	p.awaitTrue("document.querySelector('td[data-state=\"WAITING\"]')")
	if !evalJS[bool](p, "document.querySelector('.usage').hidden") {
		t.Error("a job that waits has charts")
	}
	f.health.Role, f.health.LeaderURL = api.Standby, "http://10.0.0.7:8080"
	p = openTab(t, url+"/#/jobs/train-000")
	p.awaitText("Only the leading scheduler reports usage.")
}

// TestUsageUpdates checks that the charts are updated, that errors are shown until they pass,
// and that a view that was left sends no more requests.
func TestUsageUpdates(t *testing.T) {
	f := newFakeCluster(2, 3)
	var duty atomic.Int64 // in percent
	f.usageOverrides = map[string]func(*api.TaskUsage){f.jobs[0].Tasks[0].ID: func(u *api.TaskUsage) {
		v := float64(duty.Load()) / 100
		u.Devices[0].Duty = &v
	}}
	p := openTab(t, f.serve(t).URL+"/#/queue")
	p.awaitTrue("document.querySelector('h2').textContent === 'Queue'")
	evalJS[bool](p, `(() => { // 10 s are 10 ms
		window.later = window.setTimeout;
		window.setTimeout = (f, ms) => window.later(f, ms === 10000 ? 10 : ms);
		location.hash = '#/jobs/train-000';
		return true;
	})()`)
	for _, percent := range []int64{25, 60} {
		duty.Store(percent)
		p.awaitTrue(fmt.Sprintf("document.querySelector('.spark b').textContent === '%d %%'", percent))
	}
	f.setFailing(true)
	p.awaitTrue("document.querySelector('.usage > .note').textContent.includes('the scheduler is starting')")
	f.setFailing(false)
	p.awaitTrue("document.querySelector('.usage > .note').textContent === '' && document.querySelectorAll('.gpus li').length === 2")
	evalJS[bool](p, "(location.hash = '#/queue'), true")
	p.awaitTrue("document.querySelector('h2').textContent === 'Queue'")
	evalJS[bool](p, "performance.clearResourceTimings(), new Promise((done) => window.later(() => done(true), 300))")
	if evalJS[bool](p, "performance.getEntriesByType('resource').some((r) => r.name.includes('v1/usage'))") {
		t.Error("a page without charts requests usage")
	}
}

// TestAccountingView checks the sums of the view of usage, that its choices are requested and are in
// the address, and that its rows link to the jobs.
func TestAccountingView(t *testing.T) {
	f := newFakeCluster(1, 1)
	hours := func(day, role string, gpu, busy float64) api.AccountingGroup {
		return api.AccountingGroup{Keys: map[string]string{"day": day, "role": role}, AccountingSums: api.AccountingSums{
			Attempts:             2,
			GPUSeconds:           3600 * gpu,
			UnfinishedGPUSeconds: 900 * gpu,
			WaitSeconds:          60,
			Usage:                api.MeasuredUsage{GPUSeconds: 3600 * gpu, BusyGPUSeconds: 3600 * busy, Joules: 1.8e6 * gpu},
		}}
	}
	f.more["/v1/accounting"] = api.AccountingReport{Groups: []api.AccountingGroup{
		hours("2026-11-01", "prod", 2, 1), hours("2026-11-02", "research", 10, 5), hours("2026-11-02", "prod", 4, 2),
	}}
	p := openTab(t, f.serve(t).URL+"/#/usage")
	rows := `[...document.querySelectorAll('tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent).join(' ')).join('; ')`
	want := "research 10 h 25 % 50 %  5 kWh 2 30 s; prod 6 h 25 % 50 %  3 kWh 4 30 s"
	p.awaitTrue("document.querySelectorAll('tbody tr').length === 2")
	if got := evalJS[string](p, rows); got != want {
		t.Errorf("the rows are %q, want %q", got, want)
	}
	if got := evalJS[string](p, "document.querySelectorAll('.days li')[1].firstChild.ariaLabel"); got != "2026-11-02: 14 h, research 10 h, prod 4 h" {
		t.Errorf("the second day is %q", got)
	}
	evalJS[bool](p, "([...document.querySelectorAll('.sort')].find((b) => b.textContent === 'Name').click(), true)")
	p.awaitTrue(rows + ".startsWith('prod') && location.hash === '#/usage?sort=Name'")
	if got := evalJS[string](p, "document.querySelector('tbody a').hash"); got != "#/jobs?role=prod" {
		t.Errorf("the role links to %s", got)
	}
	evalJS[bool](p, "([...document.querySelectorAll('.chip')].find((c) => c.textContent.trim() === 'Job').click(), true)")
	p.awaitTrue("location.hash === '#/usage?sort=Name&by=job'")
	p.awaitTrue("performance.getEntriesByType('resource').some(({name}) => /accounting\\?by=job&since=/.test(name))")
}

// TestDutyOfJobsAndMap checks that the list of jobs and the map show the measured duty, and nothing
// where it is old.
func TestDutyOfJobsAndMap(t *testing.T) {
	f := newFakeCluster(2, 2)
	duty, mem := 0.5, 40960.
	f.usageOverrides = map[string]func(*api.TaskUsage){
		f.jobs[0].Tasks[0].ID: func(u *api.TaskUsage) {
			for i := range u.Devices {
				u.Devices[i].Duty, u.Devices[i].MemUsedMiB = &duty, &mem
			}
		},
		f.jobs[1].Tasks[0].ID: func(u *api.TaskUsage) { u.Note = "the agent does not answer" },
	}
	p := openTab(t, f.serve(t).URL+"/#/jobs")
	p.awaitTrue(`[...document.querySelectorAll('td[data-label="Duty"]')].map((cell) => cell.textContent + '/' + (cell.title ?? '')).join() === "50 %/50 % of the GPUs' memory in use,/"`)
	evalJS[bool](p, "(location.hash = '#/?color=duty'), true")
	p.awaitTrue("document.querySelectorAll('.map .cell[data-duty]').length === 2 && document.querySelector('.map .cell[data-duty]').title.endsWith('duty 50 %')")
}
