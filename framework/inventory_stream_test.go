package framework

import (
	"bufio"
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// readEventLines opens an event stream over HTTP until the test ends. The function it
// returns reads the next line.
func readEventLines(t *testing.T, in *testInstance, query string) func() string {
	t.Helper()
	r, err := http.NewRequestWithContext(frameworktest.Timeout(t), http.MethodGet, "http://"+in.addr+"/v1/events"+query, nil)
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

// TestInventoryChangesAreStreamed: a client that requests inventory changes is notified
// when a GPU is withheld, after which the lists show the reason; a cordon is reported
// immediately. Other clients receive only task events.
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
	ctx := frameworktest.Timeout(t)
	awaitCondition(t, "the master has been asked for a first list", func() bool {
		_, values := scrapeMetrics(t, in)
		return values[`gpus{type="V100"}`] == 2
	})
	if got, want := listed(ctx), "GPU-0 free; GPU-1 free"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	news := &scheduler.Event{Type: scheduler.Event_FAILURE, Failure: &scheduler.Event_Failure{AgentID: &mesos.AgentID{Value: "agent-2"}}}
	c.WithholdDevices(gpu.WithheldDevice{UUID: "GPU-1", Cause: gpu.WithheldUnhealthy, Note: "XID 79: GPU has fallen off the bus"})
	c.SendEvents(news) // otherwise the agents would be listed within 10 s
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
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	if got := plain(); !strings.HasPrefix(got, "id: ") {
		t.Errorf("who did not ask heard %q", got)
	}
	awaitState(t, in, "a", job.Running)
	in.stopAndWait(t)
}
