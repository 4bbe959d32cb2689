package web_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// firstPaint returns the time from navigation to the first contentful paint, and drawn, the time
// until the map is complete.
const firstPaint = `new Promise((done) => {
	const all = () => {
		const [paint] = performance.getEntriesByName('first-contentful-paint');
		if (!paint || document.querySelectorAll('.map .cell').length < 8000) return;
		seen.disconnect();
		const first = paint.startTime;
		requestAnimationFrame(() => setTimeout(() => done([first, performance.now()])));
	};
	const seen = new MutationObserver(all);
	seen.observe(document, {subtree: true, childList: true, attributes: true});
	all();
})`

// BenchmarkFirstPaint loads the page without a browser cache, for a cluster of 1,000 agents with
// 8 GPUs each and 500 jobs.
func BenchmarkFirstPaint(b *testing.B) {
	url := newFakeCluster(1000, 500).serve(b).URL
	p := openBlankTab(b)
	var paint, whole float64
	for b.Loop() {
		p.runActions(chromedp.Navigate("about:blank"), chromedp.Navigate(url))
		at := evalJS[[]float64](p, firstPaint)
		paint, whole = paint+at[0], whole+at[1]
	}
	b.ReportMetric(paint/float64(b.N), "ms/first-paint")
	b.ReportMetric(whole/float64(b.N), "ms/whole-map")
	b.ReportMetric(0, "ns/op") // only the browser's own times are reported
}

// BenchmarkRedraw measures the cost of a change of one task on that cluster's page.
func BenchmarkRedraw(b *testing.B) {
	p := openTab(b, newFakeCluster(1000, 500).serve(b).URL)
	p.awaitTrue("document.querySelectorAll('.map .cell').length === 8000")
	const redraw = `(async () => {
		const [{renderOverview}, {Store}, api] = await Promise.all([import('/static/overview.js'), import('/static/store.js'), import('/static/api.js')]);
		const store = new Store();
		const [agents, gpus, jobs] = await Promise.all(['v1/agents', 'v1/gpus', 'v1/jobs'].map((p) => api.fetchJSON(p)));
		Object.assign(store, {agents: agents.agents, gpus: gpus.gpus, loads: 1, jobs: new Map(jobs.jobs.map((j) => [j.spec.name, j]))});
		const view = renderOverview(store);
		document.getElementById('main').replaceChildren(view.node);
		view.update();
		const task = store.jobs.get('train-000').tasks[0];
		const began = performance.now();
		for (let i = 0; i < 20; i++) {
			task.state = i % 2 ? 'RUNNING' : 'FINISHED';
			view.update();
			document.body.offsetHeight; // lays it out
		}
		return (performance.now() - began) / 20;
	})()`
	var took float64
	for b.Loop() {
		took += evalJS[float64](p, redraw)
	}
	b.ReportMetric(took/float64(b.N), "ms/change")
	b.ReportMetric(0, "ns/op")
}

// TestManyAgents checks a generous time limit for a large page; BenchmarkFirstPaint measures it.
func TestManyAgents(t *testing.T) {
	p := openTab(t, newFakeCluster(1000, 500).serve(t).URL)
	at := evalJS[[]float64](p, firstPaint)
	if first := time.Duration(at[0]) * time.Millisecond; first > time.Minute {
		t.Errorf("the first paint took %s, want at most a minute", first)
	}
	p.saveScreenshot("many")
	p.runActions(chromedp.Evaluate[chromedp.Void]("document.querySelector('.map li:last-child a').focus()"))
	p.saveScreenshot("many-last")
}
