package web_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/job"
)

// TestUnavailableAgents checks that free GPUs of an agent that takes no tasks are not shown as
// free: in its cells, in the counts, and on its own page.
func TestUnavailableAgents(t *testing.T) {
	f := newFakeCluster(4, 1)
	for i := range f.gpus {
		f.gpus[i].State, f.gpus[i].Shared, f.gpus[i].Reason, f.gpus[i].Note = api.FreeGPU, nil, "", ""
		switch i / 8 {
		case 0:
			f.gpus[i].Reason, f.gpus[i].Note = api.ReasonCordoned, "agent is cordoned: new racks"
		case 1:
			f.gpus[i].Reason, f.gpus[i].Note = api.ReasonDraining, "agent is being drained"
		case 2:
			f.gpus[i].UUID, f.gpus[i].State = "", "" // offered by count
		}
	}
	f.agents[3].Simulated = true
	f.agents[0].Cordoned, f.agents[1].Draining, f.agents[2].Cordoned = "new racks", true, "by hand"
	p := openTab(t, f.serve(t).URL)
	p.awaitTrue("document.querySelectorAll('.map li').length === 4")
	for _, test := range []struct{ what, expression, want string }{
		{"cells",
			"[...document.querySelectorAll('.map li')].map((li) => ['free', 'used', 'cordoned'].map((s) => li.querySelectorAll('.cell.' + s).length).join('+')).join()",
			"0+2+6,0+0+8,0+0+8,8+0+0"},
		{"marks",
			"[...document.querySelectorAll('.map a')].map((a) => a.matches('[data-closed]') + ' ' + a.querySelector('b').dataset.note).join()",
			"true cordoned,true draining,true cordoned,false "},
		{"counts", "[0, 2].map((i) => document.querySelectorAll('.numbers li')[i].innerText.replace(/\\s+/g, ' ')).join()",
			"GPUs in use 2 of 32 8 free,GPUs not offered 22 22 cordoned · 3 agents closed"},
		{"types",
			"[...document.querySelectorAll('.types li')].map((li) => li.querySelector('b').textContent + ' ' + li.querySelector('span').textContent).join()",
			"A100 8 free of 16, 6 not offered,V100 0 free of 8, 8 not offered,H100 0 free of 8, 8 not offered"},
		{"label", "document.querySelector('.map a').ariaLabel", "gpu-000.example.org: 8 GPUs A100, 6 cordoned, cordoned: new racks"},
		{"title", "document.querySelector('.map li:nth-child(2) .cell').title.split(' · ')[1]", "its agent is draining"},
	} {
		if got := evalJS[string](p, test.expression); got != test.want {
			t.Errorf("%s: got %q, want %q", test.what, got, test.want)
		}
	}
	p.saveScreenshot("overview")
	evalJS[bool](p, "(location.hash = '#/agents/"+f.agents[0].ID+"'), true")
	p.awaitText("0 of 8 free")
	p.awaitText("its agent is cordoned: new racks")
	evalJS[bool](p, "(location.hash = '#/agents'), true")
	p.awaitText("550.54.15, CUDA 12.4, simulated")
}

// TestEmptyCluster checks that no view shows an empty state before the first responses.
func TestEmptyCluster(t *testing.T) {
	f := newFakeCluster(0, 0)
	f.hold = make(chan struct{})
	p := openTab(t, f.serve(t).URL)
	for _, address := range []string{"#/", "#/queue", "#/jobs", "#/agents", "#/agents/x", "#/roles", "#/jobs/x"} {
		evalJS[bool](p, fmt.Sprintf("(location.hash = %q), true", address))
		p.awaitTrue(`getComputedStyle(document.getElementById('main'), '::after').content.includes('Connecting') || document.body.innerText.includes('Loading job')`)
		for _, claim := range []string{"0 GPUs", "Nothing waits", "No agent", "No GPU", "No job", "no such agent", "0 of 0", "0 agents", "0 jobs", "no quota"} {
			if strings.Contains(strings.ReplaceAll(p.pageText(), "\n", " "), claim) {
				t.Errorf("%s shows %q before the first response", address, claim)
			}
		}
		p.saveScreenshot("at" + strings.NewReplacer("#", "", "/", "-").Replace(address))
	}
	close(f.hold)
	p.awaitText("There is no job x.")
	evalJS[bool](p, "(location.hash = '#/jobs'), true")
	p.awaitText("No job.")
}

// TestUnknownJob checks that the page permanently reports that the job does not exist.
func TestUnknownJob(t *testing.T) {
	p := openTab(t, newFakeCluster(1, 1).serve(t).URL+"/#/agents")
	got := evalJS[string](p, `(async () => {
		const [{renderJob}, {Store}] = await Promise.all([import('/static/job.js'), import('/static/store.js')]);
		const store = new Store();
		store.loads = 1;
		const view = renderJob(store, 'nope');
		await new Promise((done) => {
			const seen = new MutationObserver(() => { if (view.node.textContent.includes('There is no job nope.')) done(); });
			seen.observe(view.node, {subtree: true, childList: true, characterData: true});
			store.watch(view.update);
		});
		view.update();
		return view.node.querySelector('.note').textContent;
	})()`)
	if got != "There is no job nope." {
		t.Errorf("after a visit to the list of jobs the page shows %q", got)
	}
}

// TestCommandIsQuotedForShell checks that a shell parses the shown command into the job's words,
// and that each task of a matrix is shown with its values.
func TestCommandIsQuotedForShell(t *testing.T) {
	f := newFakeCluster(1, 1)
	checkStates(&f.jobs[0])
	p := openTab(t, f.serve(t).URL+"/#/jobs/train-000")
	p.awaitTrue("document.querySelector('.command dd')")
	command := evalJS[string](p, "document.querySelector('.command dd').textContent")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+command).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Join(f.jobs[0].Spec.Command, "\n")+"\n", string(out)); diff != "" {
		t.Errorf("%s is read by a shell as (-want +got):\n%s", command, diff)
	}
	got := evalJS[[]string](p, `[...document.querySelectorAll('td[data-label="Matrix"]')].map((cell) => cell.textContent)`)
	if diff := cmp.Diff([]string{"rate=0.1 seed=1", "rate=0.1 seed=2", "rate=0.01 seed=1", "rate=0.01 seed=2"}, got); diff != "" {
		t.Errorf("the values of a sweep's tasks (-want +got):\n%s", diff)
	}
}

// TestMatrix checks that the page orders combinations as the scheduler does.
func TestMatrix(t *testing.T) {
	type entry = map[string]string
	axes := []job.MatrixAxis{{Name: "model", Values: []string{"a", "b"}}, {Name: "seed", Values: []string{"1", "2", "3"}}}
	p := openTab(t, newFakeCluster(0, 0).serve(t).URL)
	for _, m := range []job.Matrix{
		{Axes: axes},
		{Axes: axes, Exclude: []entry{{"model": "a", "seed": "2"}, {"seed": "3"}}},
		{Axes: axes, Include: []entry{{"model": "b", "batch": "64"}, {"model": "c", "batch": "8"}, {"note": "all"}}},
		{Axes: axes, Exclude: []entry{{"model": "b"}}, Include: []entry{{"model": "b", "seed": "1"}, {"seed": "1", "batch": "16"}}},
		{Include: []entry{{"model": "x"}, {"model": "y", "seed": "7"}}},
	} {
		count, of := m.Combinations()
		var want []entry
		for i := range count + 1 { // the last index has no combination
			want = append(want, of(i))
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got := evalJS[[]entry](p, fmt.Sprintf(`import('/static/matrix.js').then(({listCombinations}) => Array.from({length: %d}, (_, i) => listCombinations(%s)(i) ?? null))`,
			count+1, text))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-scheduler +page):\n%s", text, diff)
		}
	}
}

// TestTopologyOfAgent checks that the page shows the same links as mesos-gpu discover for simulated GPUs.
func TestTopologyOfAgent(t *testing.T) {
	host, err := simulated.NewHost("2xK80,2xV100", "")
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeCluster(1, 0)
	f.more["/v1/agents/"+f.agents[0].ID] = api.AgentDetail{AgentSummary: f.agents[0], Devices: host.Devices}
	p := openTab(t, f.serve(t).URL+"/#/agents/"+f.agents[0].ID)
	p.awaitTrue("document.querySelector('.matrix')")
	got := evalJS[[]string](p,
		"[...document.querySelectorAll('.matrix tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent).join(' '))")
	if diff := cmp.Diff([]string{"X NODE SYS SYS", "NODE X SYS SYS", "SYS SYS X NV1", "SYS SYS NV1 X"}, got); diff != "" {
		t.Errorf("(-discover +page):\n%s", diff)
	}
}
