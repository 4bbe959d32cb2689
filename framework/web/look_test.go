package web_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
)

// busy is a cluster with something on each of its pages.
func busy(t *testing.T) *httptest.Server {
	t.Helper()
	f := cluster(24, 30)
	first := f.agents[0]
	f.more["/v1/agents/"+first.ID] = api.AgentView{Agent: first, Devices: devices(f.gpus[:8])}
	f.more["/v1/tasks/"+f.jobs[0].Tasks[0].ID+"/log"] = strings.Repeat("epoch 17: loss 0.1934, 1240 images/s, learning rate 0.000312\n", 60)
	f.more["/v1/queue"] = map[string]any{"jobs": []map[string]any{
		{"position": 1, "name": "train-002", "role": "prod", "priority": 5, "submitted": f.jobs[2].Submitted, "tasks": 1, "waiting": 1, "gpus": "2 x A100", "reason": f.jobs[2].Waits},
		{"position": 2, "name": "train-005", "role": "research/vision", "priority": 0, "submitted": f.jobs[5].Submitted, "tasks": 8, "waiting": 3, "gpus": "1 x H100", "reason": f.jobs[5].Waits},
	}}
	f.more["/v1/roles"] = map[string]any{"roles": []map[string]any{
		{"name": "research/vision", "weight": 1, "order": "fifo", "policy": "headroom", "backfill": true, "quota": map[string]int{"V100": 8, "*": 16}, "quota_set": true, "held": map[string]float64{"V100": 3.5, "*": 3.5}, "waiting": 2},
		{"name": "prod", "weight": 2, "order": "fifo", "policy": "binpack", "backfill": false, "quota": map[string]int{}, "held": map[string]float64{"A100": 12, "*": 12}, "waiting": 0},
	}}
	return f.serve(t)
}

func devices(list []api.GPU) []gpu.Device {
	all := make([]gpu.Device, len(list))
	for i, g := range list {
		all[i] = gpu.Device{UUID: g.UUID, Model: g.Model, MemMiB: g.MemMiB, Minor: i, NUMA: i / 4, Paths: map[string]gpu.Path{}, NVLinks: map[string]int{}}
		for j, other := range list {
			switch {
			case i == j:
			case i/4 == j/4:
				all[i].NVLinks[other.UUID] = 12
			default:
				all[i].Paths[other.UUID] = gpu.System
			}
		}
	}
	return all
}

// views are the page's, each with something that it shows once it is there.
var views = []struct{ name, address, there string }{
	{"overview", "#/", "document.querySelectorAll('.map li').length === 24 && document.querySelector('.waits li')"},
	{"queue", "#/queue", "document.querySelectorAll('tbody tr').length === 2"},
	{"jobs", "#/jobs", "document.querySelectorAll('tbody tr').length === 30"},
	{"job", "#/jobs/train-000", "document.querySelector('pre').textContent.includes('epoch 17') && document.querySelectorAll('.gpus li').length === 2"},
	{"agents", "#/agents", "document.querySelectorAll('tbody tr').length === 24"},
	{"agent", "#/agents/c1d9a6f0-S0", "document.querySelector('.matrix') && document.querySelectorAll('.gpus li').length === 4"},
	{"quotas", "#/quotas", "document.querySelectorAll('.role').length === 2"},
}

// contrast lists the texts of the page that stand out less than 4.5 to 1 from
// their ground, by the formula of the Web Content Accessibility Guidelines.
const contrast = `(() => {
	const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
	const over = (colours) => {
		canvas.fillStyle = '#fff';
		canvas.fillRect(0, 0, 1, 1);
		for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
		return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
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

// TestLooks: each view in both schemes, wide and as on a phone: readable, and
// nothing to scroll sideways.
func TestLooks(t *testing.T) {
	p := open(t, busy(t).URL)
	for _, scheme := range []string{"light", "dark"} {
		p.scheme(scheme)
		for _, width := range []int64{1280, 360} {
			p.size(width, 900)
			for _, v := range views {
				eval[bool](p, fmt.Sprintf("(location.hash = %q), true", v.address))
				p.await(v.there)
				name := fmt.Sprintf("%s-%s-%d", v.name, scheme, width)
				p.keep(name)
				if poor := eval[[]string](p, contrast); len(poor) > 0 {
					t.Errorf("%s: too little contrast: %q", name, poor)
				}
				if wide := eval[int64](p, "document.documentElement.scrollWidth"); wide > width {
					t.Errorf("%s: %d pixels wide, want %d", name, wide, width)
				}
			}
		}
	}
}

// TestKeyboard: all of the page without a mouse.
func TestKeyboard(t *testing.T) {
	p := open(t, busy(t).URL)
	p.await(views[0].there)
	focused := func() string {
		return eval[string](p, "(document.activeElement.ariaLabel || document.activeElement.textContent || document.activeElement.type).trim()")
	}
	press := func(keys string, want string) {
		t.Helper()
		p.do(chromedp.KeyEvent(keys))
		if got := focused(); !strings.Contains(got, want) {
			t.Errorf("after %q the focus is on %q, want %q", keys, got, want)
		}
		if !eval[bool](p, "document.activeElement === document.body || document.activeElement.matches('h2, main') || getComputedStyle(document.activeElement).outlineStyle !== 'none'") {
			t.Errorf("nobody sees the focus on %q", focused())
		}
	}
	for _, stop := range []string{
		"Skip to the content", "mesos-gpu", "Overview", "Queue", "Jobs", "Agents", "Quotas",
		"train-002", "train-005", "train-008", "train-011", "train-014", "All 10 in the queue", "search",
	} {
		press(kb.Tab, stop)
	}
	press(kb.Tab, "gpu-000.example.org: 8 GPUs A100")
	press(kb.ArrowRight, "gpu-001")
	press(kb.ArrowDown, fmt.Sprintf("gpu-%03d", 1+eval[int](p, `[...document.querySelectorAll('.map li')].findIndex((li, i, all) => li.offsetTop !== all[0].offsetTop)`)))
	press(kb.ArrowUp, "gpu-001")
	press(kb.End, "gpu-023")
	press(kb.ArrowRight, "gpu-023") // there is none after it
	press(kb.Home, "gpu-000")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.await(views[5].there)
	if got := focused(); got != "gpu-000.example.org" {
		t.Errorf("on the agent's page the focus is on %q", got)
	}
	press(kb.Tab, "train-000.0.1")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.await(views[3].there)
	press(kb.Tab, "show")
	press(kb.Tab, "radio")
	press(kb.Tab, "checkbox")
	press(kb.Tab, "Output")
}
