package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// diary is a journal that notes in what order things happen.
type diary struct {
	lines []string
	fail  error
}

func (d *diary) Load(context.Context) (journal.Contents, error) { return journal.Contents{}, nil }
func (d *diary) Close() error                                   { return nil }

func (d *diary) Commit(_ context.Context, c journal.Change) error {
	text := "record"
	if c.FrameworkID != "" {
		text += " " + c.FrameworkID
	}
	for _, t := range c.Tasks {
		text += fmt.Sprintf(" %s %s", t.Job, t.State)
	}
	d.lines = append(d.lines, text)
	return d.fail
}

func (d *diary) post(op sched.Op) {
	d.lines = append(d.lines, "post "+strings.Fields(op.String())[0])
}

func (d *diary) take() string {
	text := strings.Join(d.lines, "; ")
	d.lines = nil
	return text
}

func testLoop(d *diary) *loop {
	cfg := Config{Log: quiet()}
	cfg.setDefaults()
	return newLoop(&cfg, journal.Contents{}, d, d.post)
}

// TestRecordComesBeforeAct: intent before ACCEPT, updates before ACKNOWLEDGE,
// answers after both.
func TestRecordComesBeforeAct(t *testing.T) {
	d := &diary{}
	l := testLoop(d)
	s := spec("train", 1, 1)
	s.SetDefaults()
	var id string
	for _, step := range []struct {
		ev   sched.Event
		want string
	}{
		{sched.Subscribed{FrameworkID: "f1"}, "record f1; post suppress"},
		{sched.Submit{Spec: s}, "record train WAITING; post revive"},
		{sched.Offers{Offers: []sched.Offer{{ID: "o1", AgentID: "a", Role: "*", GPUs: 1, Free: sched.Amount{CPUs: 2, MemMiB: 1024}}}}, "record train LAUNCHING; post accept; post suppress"},
		{sched.Update{State: job.Running, UUID: []byte{1}}, "record train RUNNING; post acknowledge"},
		{sched.Update{State: job.Running, UUID: []byte{1}}, "post acknowledge"},
		{sched.Update{State: job.Running, UUID: []byte{1}, Healthy: new(bool)}, "record train RUNNING; post acknowledge"},
		{sched.Update{State: job.Running, UUID: []byte{1}, Healthy: new(bool)}, "post acknowledge"},
		{sched.Tick{}, ""},
	} {
		if u, ok := step.ev.(sched.Update); ok {
			u.TaskID = id
			step.ev = u
		}
		l.apply(step.ev)
		l.apply(sched.Cycle{})
		if err := l.flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		if j, ok := l.st.Job("train"); ok {
			id = j.Tasks[0].ID
		}
		if got := d.take(); got != step.want {
			t.Errorf("%T: %q, want %q", step.ev, got, step.want)
		}
	}
}

// TestNothingIsDoneUnrecorded: when the journal cannot be written, no
// operation goes out, the request fails and the loop ends.
func TestNothingIsDoneUnrecorded(t *testing.T) {
	d := &diary{fail: errors.New("no space left on device")}
	l := testLoop(d)
	b := &leader{reader: reader{view: l.view}, loop: l}
	ended := make(chan error, 1)
	go func() { ended <- l.run(context.Background()) }()
	l.events <- sched.Subscribed{FrameworkID: "f1"}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the loop ended with %v", err)
	}
	if got := d.take(); got != "record f1" {
		t.Errorf("did %q", got)
	}
	go func() { ended <- l.run(context.Background()) }()
	s := spec("train", 1, 1)
	s.SetDefaults()
	if _, err := b.Submit(context.Background(), s); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("submit: %v", err)
	}
	<-ended
}

func TestTicksAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		l := testLoop(d)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.run(ctx) }()
		l.emit(ctx)(sched.Subscribed{FrameworkID: "f1"})
		time.Sleep(20 * time.Second) // the implicit reconciliation is due after 15
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := d.take(); got != "record f1; post suppress; post reconcile" {
			t.Errorf("did %q", got)
		}
		b := &leader{reader: reader{view: l.view}, loop: l, ended: ctx.Done()}
		if err := b.Kill(context.Background(), "train", false); err == nil {
			t.Error("a loop that has ended answered")
		}
		b.ended = nil
		var p *api.Problem
		if err := b.Kill(ctx, "train", false); !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable {
			t.Errorf("a request that ended: %v", err)
		}
		l.emit(ctx)(sched.Tick{}) // blocks nobody
	})
}

// TestCollectorWaits: a scheduler of no jobs is not gone through for each few
// MiB that requests leave.
func TestCollectorWaits(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	l := testLoop(&diary{})
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	if got := goal[0].Value.Uint64(); got < 2*collectFrom {
		t.Errorf("the next collection is at %d bytes, want %d at least", got, 2*collectFrom)
	}
	runtime.KeepAlive(l)
}

func TestSlowListenerIsDropped(t *testing.T) {
	h := newHub()
	slow, other := h.join(""), h.join("b")
	for range backlog + 1 {
		h.publish(api.Event{Job: "a"})
	}
	n := 0
	for range slow.ch {
		n++
	}
	if n != backlog {
		t.Errorf("the slow one got %d events before it was cut off, want %d", n, backlog)
	}
	h.publish(api.Event{Job: "b"})
	if ev := <-other.ch; ev.Job != "b" {
		t.Errorf("the other got %+v", ev)
	}
	h.leave(slow)
	h.leave(other)
	h.leave(other)
	if len(h.listeners) != 0 {
		t.Errorf("%d still listen", len(h.listeners))
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{ExecutorPath: "bin/x", Roles: []string{"a b"}, FailoverTimeout: -1}); err == nil ||
		!strings.Contains(err.Error(), "not absolute") || !strings.Contains(err.Error(), "role") || !strings.Contains(err.Error(), "negative") || !strings.Contains(err.Error(), "no log") {
		t.Errorf("got %v", err)
	}
	cfg := Config{Log: quiet(), Master: "m1:5050, https://m2:5050/,"}
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.FailoverTimeout != 7*24*time.Hour || cfg.APIAddr != "127.0.0.1:8080" {
		t.Errorf("defaults %+v", cfg)
	}
}

func TestStrangeTypes(t *testing.T) {
	agents := []master.Agent{
		{GPUs: 3, Types: []string{"V100"}},
		{Host: gpu.Host{Devices: []gpu.Device{{Model: "Tesla K80"}, {Model: "NVIDIA Prototype 7"}}}},
		{GPUs: 2, Types: []string{"T4", "P4"}}, // nobody knows which is which
		{},
	}
	for name, want := range map[string]string{
		"V1000":     `gpu_type "V1000": no agent has it and NVIDIA makes none of that name; this cluster has V100 (3), K80 (1), Prototype (1), P4, T4`,
		"Prototype": "", "h100": "", "K80": "",
	} {
		err := refuseTypes(strangeTypes(gpu.Types{Include: []string{name}}), agents)
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if err := refuseTypes([]string{"X"}, nil); err == nil || !strings.Contains(err.Error(), "no GPU") {
		t.Errorf("empty cluster: %v", err)
	}
}
