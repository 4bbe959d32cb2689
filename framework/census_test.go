package framework

import (
	"bufio"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestCensus: what is shown of agents and GPUs counts, in whatever order Mesos
// lists it, and not who holds what.
func TestCensus(t *testing.T) {
	list := func(change func(a, b *master.Agent)) []master.Agent {
		a := master.Agent{ID: "a", Hostname: "h", Active: true, GPUs: 2, GPUsFree: 2, DeviceIDs: []string{"1", "2"}, Shared: []sched.Shared{{UUID: "3", MemMiB: 8}}}
		b := master.Agent{ID: "b", Hostname: "i", Active: true, GPUs: 2}
		change(&a, &b)
		return []master.Agent{a, b}
	}
	withheld := func(cause gpu.Cause, note string) func(a, b *master.Agent) {
		return func(a, _ *master.Agent) {
			a.GPUs, a.DeviceIDs, a.Withheld = 1, a.DeviceIDs[:1], []gpu.Withheld{{UUID: "2", Cause: cause, Note: note}}
		}
	}
	same := func(_, _ *master.Agent) {}
	var known census
	for i, step := range []struct {
		what string
		list []master.Agent
		want bool
	}{
		{"the first", list(same), false},
		{"the same", list(same), false},
		{"tasks began", list(func(a, b *master.Agent) {
			a.GPUsFree, a.DevicesHeld, a.SharedFree, b.GPUsFree = 1, []string{"1"}, []sched.Shared{{UUID: "3", MemMiB: 4}}, 0
		}), false},
		{"another order", func() []master.Agent {
			all := list(func(a, _ *master.Agent) { a.DeviceIDs = []string{"2", "1"} })
			slices.Reverse(all)
			return all
		}(), false},
		{"a device is sick", list(withheld(gpu.Sick, "XID 79")), true},
		{"it is cordoned", list(withheld(gpu.Cordoned, "")), true},
		{"for a reason", list(withheld(gpu.Cordoned, "fan")), true},
		{"it is back", list(same), true},
		{"devices change places", list(func(a, b *master.Agent) { a.DeviceIDs, b.DeviceIDs = nil, a.DeviceIDs }), true},
		{"an agent has gone", list(same)[:1], true},
		{"it is back", list(same), true},
		{"it is away", list(func(_, b *master.Agent) { b.Active = false }), true},
		{"it is drained", list(func(_, b *master.Agent) { b.Active, b.Draining = false, true }), true},
		{"a shared device has gone", list(func(a, b *master.Agent) { a.Shared, b.Active, b.Draining = nil, false, true }), true},
		{"none", nil, true},
		{"none still", nil, false},
	} {
		if got := known.changed(step.list); got != step.want {
			t.Errorf("%d, %s: changed is %t, want %t", i, step.what, got, step.want)
		}
	}
}

// lines reads a stream of events over HTTP until the test ends.
func lines(t *testing.T, in *instance, query string) func() string {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodGet, "http://"+in.addr+"/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	text := bufio.NewScanner(res.Body)
	return func() string {
		for text.Scan() {
			if text.Text() != "" {
				return text.Text()
			}
		}
		t.Errorf("the stream ended: %v", text.Err())
		return ""
	}
}

// TestInventoryIsHeard: who asks for it hears that a GPU is withheld, and then
// the lists say why; a cordon is heard at once. Who does not ask hears of tasks
// alone.
func TestInventoryIsHeard(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	in := run(t, c, filepath.Join(t.TempDir(), "journal.db"))
	atRest(t, c)
	hears, plain := lines(t, in, "?inventory=true"), lines(t, in, "")
	heard := func(what string) {
		t.Helper()
		if name, data := hears(), hears(); name != "event: inventory" || data != "data: {}" {
			t.Errorf("%s: got %q, %q", what, name, data)
		}
	}
	listed := func(ctx context.Context) string {
		t.Helper()
		gpus, err := in.GPUs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, g := range gpus {
			all = append(all, strings.TrimSpace(g.UUID+" "+string(g.State)+" "+string(g.Reason)+" "+g.Note))
		}
		return strings.Join(all, "; ")
	}
	ctx := within(t)
	await(t, "the master has been asked for a first list", func() bool {
		_, values := scrape(t, in)
		return values[`gpus{type="V100"}`] == 2
	})
	if got, want := listed(ctx), "GPU-0 free; GPU-1 free"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	news := &scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: "agent-2"}}}
	c.Withhold(gpu.Withheld{UUID: "GPU-1", Cause: gpu.Sick, Note: "XID 79: GPU has fallen off the bus"})
	c.Send(news) // else it would be listed within 10 s
	heard("a sick GPU")
	if got, want := listed(ctx), "GPU-0 free; GPU-1 withheld sick GPU is sick: XID 79: GPU has fallen off the bus"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := in.Cordon(ctx, "agent-1", "dust"); err != nil {
		t.Fatal(err)
	}
	heard("a cordon")
	if err := in.Uncordon(ctx, "agent-1"); err != nil {
		t.Fatal(err)
	}
	heard("its end")
	c.Withhold()
	c.Send(news)
	heard("a GPU that is back")
	if _, err := in.Submit(ctx, spec("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if got := plain(); !strings.HasPrefix(got, "id: ") {
		t.Errorf("who did not ask heard %q", got)
	}
	awaitState(t, in, "a", job.Running)
	in.end(t)
}

// TestCordonsAreHeard on a standby too, which reads of them in the journal:
// when they come and when they go, and of nothing else there.
func TestCordonsAreHeard(t *testing.T) {
	b := &standby{reader: reader{view: newView(journal.Contents{})}}
	l := b.view.hub.join("")
	b.view.hub.want(l)
	for _, step := range []struct {
		key, value string
		want       int
	}{
		{"scheduler/cordon/gpu7", `{"reason":"new fans"}`, 1},
		{"scheduler/quota/research", `{}`, 1},
		{"marathon/app", `{}`, 1},
		{"scheduler/cordon/gpu7", "", 2},
	} {
		b.Apply(journal.Change{Documents: map[string][]byte{step.key: []byte(step.value)}})
		if got := len(l.ch); got != step.want {
			t.Errorf("%s %q: heard %d times, want %d", step.key, step.value, got, step.want)
		}
	}
	// What a standby reads anew, when the journal was compacted.
	all := journal.Contents{Documents: map[string][]byte{"scheduler/cordon/gpu7": []byte(`{"reason":"new fans"}`)}}
	for range 2 {
		b.Reset(all)
		if got := len(l.ch); got != 3 {
			t.Errorf("heard %d times, want 3", got)
		}
	}
}

// TestSlowListenerOfInventory is let go, as any other.
func TestSlowListenerOfInventory(t *testing.T) {
	h := newHub()
	slow, other := h.join(""), h.join("")
	h.want(slow)
	for range backlog + 1 {
		h.restock()
	}
	heard := 0
	for ev := range slow.ch {
		if ev != (api.Event{Inventory: true}) {
			t.Errorf("got %+v", ev)
		}
		heard++
	}
	if heard != backlog || len(other.ch) != 0 || h.last != 0 {
		t.Errorf("%d heard by one, %d by the other, and the last has number %d", heard, len(other.ch), h.last)
	}
}
