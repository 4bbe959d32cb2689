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

// TestInventoryDigest: what is shown of agents and GPUs counts, in whatever order Mesos
// lists it, and not who holds what.
func TestInventoryDigest(t *testing.T) {
	list := func(change func(a, b *master.ListedAgent)) []master.ListedAgent {
		a := master.ListedAgent{ID: "a", Hostname: "h", Active: true, GPUs: 2, GPUsFree: 2, DeviceIDs: []string{"1", "2"}, Shared: []sched.SharedDevice{{UUID: "3", MemMiB: 8}}}
		b := master.ListedAgent{ID: "b", Hostname: "i", Active: true, GPUs: 2}
		change(&a, &b)
		return []master.ListedAgent{a, b}
	}
	withheld := func(cause gpu.WithheldCause, note string) func(a, b *master.ListedAgent) {
		return func(a, _ *master.ListedAgent) {
			a.GPUs, a.DeviceIDs, a.Withheld = 1, a.DeviceIDs[:1], []gpu.WithheldDevice{{UUID: "2", Cause: cause, Note: note}}
		}
	}
	same := func(_, _ *master.ListedAgent) {}
	var known inventoryDigest
	for i, step := range []struct {
		what string
		list []master.ListedAgent
		want bool
	}{
		{"the first", list(same), false},
		{"the same", list(same), false},
		{"tasks began", list(func(a, b *master.ListedAgent) {
			a.GPUsFree, a.DevicesHeld, a.SharedFree, b.GPUsFree = 1, []string{"1"}, []sched.SharedDevice{{UUID: "3", MemMiB: 4}}, 0
		}), false},
		{"another order", func() []master.ListedAgent {
			all := list(func(a, _ *master.ListedAgent) { a.DeviceIDs = []string{"2", "1"} })
			slices.Reverse(all)
			return all
		}(), false},
		{"a device is sick", list(withheld(gpu.WithheldUnhealthy, "XID 79")), true},
		{"it is cordoned", list(withheld(gpu.WithheldCordoned, "")), true},
		{"for a reason", list(withheld(gpu.WithheldCordoned, "fan")), true},
		{"it is back", list(same), true},
		{"devices change places", list(func(a, b *master.ListedAgent) { a.DeviceIDs, b.DeviceIDs = nil, a.DeviceIDs }), true},
		{"an agent has gone", list(same)[:1], true},
		{"it is back", list(same), true},
		{"it is away", list(func(_, b *master.ListedAgent) { b.Active = false }), true},
		{"it is drained", list(func(_, b *master.ListedAgent) { b.Active, b.Draining = false, true }), true},
		{"a shared device has gone", list(func(a, b *master.ListedAgent) { a.Shared, b.Active, b.Draining = nil, false, true }), true},
		{"none", nil, true},
		{"none still", nil, false},
	} {
		if got := known.updateAndCompare(step.list); got != step.want {
			t.Errorf("%d, %s: changed is %t, want %t", i, step.what, got, step.want)
		}
	}
}

// readEventLines reads a stream of events over HTTP until the test ends.
func readEventLines(t *testing.T, in *testInstance, query string) func() string {
	t.Helper()
	r, err := http.NewRequestWithContext(testTimeout(t), http.MethodGet, "http://"+in.addr+"/v1/events"+query, nil)
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

// TestInventoryChangesAreStreamed: who asks for it hears that a GPU is withheld, and then
// the lists say why; a cordon is heard at once. Who does not ask hears of tasks
// alone.
func TestInventoryChangesAreStreamed(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	awaitDecline(t, c)
	hears, plain := readEventLines(t, in, "?inventory=true"), readEventLines(t, in, "")
	heard := func(what string) {
		t.Helper()
		if name, data := hears(), hears(); name != "event: inventory" || data != "data: {}" {
			t.Errorf("%s: got %q, %q", what, name, data)
		}
	}
	listed := func(ctx context.Context) string {
		t.Helper()
		gpus, err := in.ListGPUs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, g := range gpus {
			all = append(all, strings.TrimSpace(g.UUID+" "+string(g.State)+" "+string(g.Reason)+" "+g.Note))
		}
		return strings.Join(all, "; ")
	}
	ctx := testTimeout(t)
	awaitCondition(t, "the master has been asked for a first list", func() bool {
		_, values := scrapeMetrics(t, in)
		return values[`gpus{type="V100"}`] == 2
	})
	if got, want := listed(ctx), "GPU-0 free; GPU-1 free"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	news := &scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: "agent-2"}}}
	c.WithholdDevices(gpu.WithheldDevice{UUID: "GPU-1", Cause: gpu.WithheldUnhealthy, Note: "XID 79: GPU has fallen off the bus"})
	c.SendEvents(news) // else it would be listed within 10 s
	heard("a sick GPU")
	if got, want := listed(ctx), "GPU-0 free; GPU-1 withheld sick GPU is sick: XID 79: GPU has fallen off the bus"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := in.CordonAgent(ctx, "agent-1", "dust"); err != nil {
		t.Fatal(err)
	}
	heard("a cordon")
	if err := in.UncordonAgent(ctx, "agent-1"); err != nil {
		t.Fatal(err)
	}
	heard("its end")
	c.WithholdDevices()
	c.SendEvents(news)
	heard("a GPU that is back")
	if _, err := in.SubmitJob(ctx, testSpec("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if got := plain(); !strings.HasPrefix(got, "id: ") {
		t.Errorf("who did not ask heard %q", got)
	}
	awaitState(t, in, "a", job.Running)
	in.stopAndWait(t)
}

// TestCordonChangesAreStreamed on a standby too, which reads of them in the journal:
// when they come and when they go, and of nothing else there.
func TestCordonChangesAreStreamed(t *testing.T) {
	b := &standbyBackend{clusterReader: clusterReader{view: newView(journal.JournalContents{})}}
	l := b.view.hub.addListener("")
	b.view.hub.subscribeInventory(l)
	for _, step := range []struct {
		key, value string
		want       int
	}{
		{"scheduler/cordon/gpu7", `{"reason":"new fans"}`, 1},
		{"scheduler/quota/research", `{}`, 1},
		{"marathon/app", `{}`, 1},
		{"scheduler/cordon/gpu7", "", 2},
	} {
		b.ApplyChange(journal.Change{Documents: map[string][]byte{step.key: []byte(step.value)}})
		if got := len(l.ch); got != step.want {
			t.Errorf("%s %q: heard %d times, want %d", step.key, step.value, got, step.want)
		}
	}
	// What a standby reads anew, when the journal was compacted.
	all := journal.JournalContents{Documents: map[string][]byte{"scheduler/cordon/gpu7": []byte(`{"reason":"new fans"}`)}}
	for range 2 {
		b.ReplaceAll(all)
		if got := len(l.ch); got != 3 {
			t.Errorf("heard %d times, want 3", got)
		}
	}
}

// TestSlowInventoryListenerIsDropped is let go, as any other.
func TestSlowInventoryListenerIsDropped(t *testing.T) {
	h := newHub()
	slow, other := h.addListener(""), h.addListener("")
	h.subscribeInventory(slow)
	for range listenerBuffer + 1 {
		h.publishInventoryChange()
	}
	heard := 0
	for ev := range slow.ch {
		if ev != (api.TaskEvent{InventoryChanged: true}) {
			t.Errorf("got %+v", ev)
		}
		heard++
	}
	if heard != listenerBuffer || len(other.ch) != 0 || h.last != 0 {
		t.Errorf("%d heard by one, %d by the other, and the last has number %d", heard, len(other.ch), h.last)
	}
}
