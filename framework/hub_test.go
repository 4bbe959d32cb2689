package framework

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// summed are the tasks, states and messages of events.
func summed(events []api.Event) (all []string) {
	for _, ev := range events {
		all = append(all, strings.TrimSpace(fmt.Sprint(ev.Task, " ", ev.State, " ", ev.Message)))
	}
	return all
}

func happens(v *view, task, message string) {
	name, _, _ := strings.Cut(task, ".")
	v.record(journal.Change{}, []sched.Move{{Job: name, TaskID: task, State: job.Running, Message: message}}, nil)
}

// TestEventsGoOn from where a client was, each once; from anywhere else they
// begin with the present states.
func TestEventsGoOn(t *testing.T) {
	v := newView(journal.Contents{})
	v.Apply(change(viewedJob("a", 1, job.Running, job.Finished)))
	v.Apply(change(viewedJob("b", 2, job.Running)))
	ask := func(q api.EventQuery) []api.Event {
		t.Helper()
		events, l, err := v.events(q)
		if err != nil {
			t.Fatal(err)
		}
		v.hub.leave(l)
		return events
	}
	all := ask(api.EventQuery{})
	place := all[len(all)-1].ID
	happens(v, "a.0", "1")
	happens(v, "b.0", "2")
	happens(v, "a.0", "3")
	last := v.hub.place()
	other := newHub().place()
	states := []string{"a.0 RUNNING", "a.1 FINISHED", "b.0 RUNNING"}
	for name, c := range map[string]struct {
		q    api.EventQuery
		want []string
	}{
		"missed":           {api.EventQuery{After: place}, []string{"a.0 RUNNING 1", "b.0 RUNNING 2", "a.0 RUNNING 3"}},
		"missed, live":     {api.EventQuery{After: place, Live: true}, []string{"a.0 RUNNING 1", "b.0 RUNNING 2", "a.0 RUNNING 3"}},
		"missed, of a job": {api.EventQuery{After: place, Job: "a"}, []string{"a.0 RUNNING 1", "a.0 RUNNING 3"}},
		"nothing missed":   {api.EventQuery{After: last}, nil},
		"no place":         {api.EventQuery{}, states},
		"no place, live":   {api.EventQuery{Live: true}, []string{"a.0 RUNNING", "b.0 RUNNING"}},
		"of a job, live":   {api.EventQuery{Job: "a", Live: true}, []string{"a.0 RUNNING"}},
		"another leader's": {api.EventQuery{After: other}, states},
		"none of ours":     {api.EventQuery{After: "7"}, states},
		"not yet":          {api.EventQuery{After: v.hub.id(v.hub.last + 1)}, states},
		"no number":        {api.EventQuery{After: v.hub.epoch + "-x"}, states},
	} {
		if diff := cmp.Diff(c.want, summed(ask(c.q))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	for i := range kept {
		happens(v, "b.0", fmt.Sprint("then ", i))
	}
	got := ask(api.EventQuery{After: last})
	if len(got) != kept || got[0].Message != "then 0" || got[kept-1].Message != fmt.Sprint("then ", kept-1) || got[kept-1].ID != v.hub.place() {
		t.Errorf("after %d events: got %d, %+v", kept, len(got), got[:min(1, len(got))])
	}
	happens(v, "b.0", "one too many")
	if diff := cmp.Diff(states, summed(ask(api.EventQuery{After: last}))); diff != "" {
		t.Errorf("too old (-want +got):\n%s", diff)
	}
}

// TestBrokenStreamGoesOn over HTTP: what happens while nobody listens comes
// with the next stream, once, and then what happens later.
func TestBrokenStreamGoesOn(t *testing.T) {
	l := testLoop(&diary{})
	v := l.view
	v.Apply(change(viewedJob("a", 1, job.Running)))
	leads := &leader{reader: reader{view: v}, loop: l}
	server := httptest.NewServer(api.Handler(func() api.Backend { return leads }, quiet()))
	defer server.Close()
	defer v.hub.close()
	listen := func(after string) (next func() string, end func()) {
		t.Helper()
		r, err := http.NewRequestWithContext(within(t), http.MethodGet, server.URL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		if after != "" {
			r.Header.Set("Last-Event-ID", after)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		next = func() string {
			for lines.Scan() {
				if lines.Text() != "" {
					return lines.Text()
				}
			}
			return ""
		}
		return next, func() { res.Body.Close() }
	}

	next, end := listen("")
	id, ok := strings.CutPrefix(next(), "id: ")
	if data := next(); !ok || !strings.Contains(data, `"state":"RUNNING"`) {
		t.Fatalf("id %q, %s", id, data)
	}
	end()
	happens(v, "a.0", "missed")
	next, end = listen(id)
	defer end()
	for _, want := range []string{"missed", "later"} {
		id, data := next(), next()
		if id != "id: "+v.hub.place() || !strings.Contains(data, `"message":"`+want+`"`) {
			t.Errorf("got %s, %s, want %s with id %s", id, data, want, v.hub.place())
		}
		if want == "missed" {
			happens(v, "a.0", "later")
		}
	}
}
