package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/marathon/deploy"
)

// openEventStream opens an event stream. next reads one event.
func openEventStream(t *testing.T, a *testClient, query string) (next func() (kind string, data map[string]any), end func()) {
	t.Helper()
	srv := httptest.NewServer(a.handler)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v2/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("Content-Type: got %q, want text/event-stream", got)
	}
	end = func() { cancel(); _ = answer.Body.Close(); srv.Close() }
	t.Cleanup(end)
	lines := bufio.NewReader(answer.Body)
	return func() (string, map[string]any) {
		kind, data := "", map[string]any{}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("read the stream: %v", err)
			}
			line, terminated := strings.CutSuffix(line, "\r\n")
			switch {
			case !terminated:
				t.Fatalf("the line %q does not end with CR LF", line)
			case strings.HasPrefix(line, "event: "):
				kind = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				if err := json.Unmarshal([]byte(line[len("data: "):]), &data); err != nil {
					t.Fatalf("%v in %s", err, line)
				}
			case line == "" && kind != "":
				return kind, data
			}
		}
	}, end
}

// A stream contains its own StreamAttached, the event of a request, and all events that follow from it.
func TestStreamHasAllEvents(t *testing.T) {
	a := newTestClient(t)
	next, _ := openEventStream(t, a, "")
	if kind, data := next(); kind != "event_stream_attached" || data["remoteAddress"] != "127.0.0.1" {
		t.Fatalf("got %s %v, want event_stream_attached of 127.0.0.1", kind, data)
	}
	a.send(http.MethodPost, "/v2/apps", `{"id": "/web", "cmd": "serve"}`, http.StatusCreated)
	seen := map[string]map[string]any{}
	for seen["api_post_event"] == nil {
		kind, data := next()
		if data["eventType"] != kind {
			t.Errorf("the event %s calls itself %v", kind, data["eventType"])
		}
		if _, err := time.Parse(timestampLayout, data["timestamp"].(string)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		seen[kind] = data
	}
	for _, kind := range []string{"group_change_success", "deployment_info", "deployment_step_success", "deployment_success"} {
		if seen[kind] == nil {
			t.Errorf("there was no %s", kind)
		}
	}
	posted := seen["api_post_event"]
	if app, ok := posted["appDefinition"].(map[string]any); !ok || app["id"] != "/web" || app["version"] == nil || posted["uri"] != "/v2/apps" {
		t.Errorf("api_post_event is %v", posted)
	}
}

func TestEventFilter(t *testing.T) {
	a := newTestClient(t)
	next, _ := openEventStream(t, a, "?event_type=deployment_success&event_type=app_terminated_event")
	a.send(http.MethodPost, "/v2/apps", `{"id": "/web", "cmd": "serve"}`, http.StatusCreated)
	a.send(http.MethodDelete, "/v2/apps/web", "", http.StatusOK)
	var kinds []string
	for range 3 {
		kind, _ := next()
		kinds = append(kinds, kind)
	}
	if want := []string{"deployment_success", "app_terminated_event", "deployment_success"}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
}

// Other streams get an event when a stream ends.
func TestDetachedStreamIsRemoved(t *testing.T) {
	a := newTestClient(t)
	next, _ := openEventStream(t, a, "?event_type=event_stream_detached")
	other, end := openEventStream(t, a, "")
	other()
	end()
	if kind, _ := next(); kind != "event_stream_detached" {
		t.Errorf("got %s, want event_stream_detached", kind)
	}
}

func TestHealthEventHasLegacyForm(t *testing.T) {
	bus := NewEventBus()
	s := bus.addStream(nil, eventForm{})
	well := true
	if err := bus.Publish(time.Unix(0, 0),
		deploy.InstanceHealthChanged{InstanceID: "t", AppID: "/a", Version: "v", Healthy: &well},
		deploy.InstanceHealthChanged{InstanceID: "t", AppID: "/a", Version: "v"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range len(s.frames) {
		got = append(got, string(<-s.frames))
	}
	want := []string{
		"event: instance_health_changed_event\r\ndata: " +
			"{\"instanceId\":\"t\",\"runSpecVersion\":\"v\",\"runSpecId\":\"/a\",\"healthy\":true,\"eventType\":\"instance_health_changed_event\",\"timestamp\":\"1970-01-01T00:00:00.000Z\"}\r\n\r\n",
		"event: health_status_changed_event\r\ndata: " +
			"{\"appId\":\"/a\",\"instanceId\":\"t\",\"version\":\"v\",\"alive\":true,\"eventType\":\"health_status_changed_event\",\"timestamp\":\"1970-01-01T00:00:00.000Z\"}\r\n\r\n",
		"event: instance_health_changed_event\r\ndata: " +
			"{\"instanceId\":\"t\",\"runSpecVersion\":\"v\",\"runSpecId\":\"/a\",\"healthy\":null,\"eventType\":\"instance_health_changed_event\",\"timestamp\":\"1970-01-01T00:00:00.000Z\"}\r\n\r\n",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A stream whose client does not read is closed; other streams stay open, and Publish waits for none.
func TestSlowEventReaderIsDisconnected(t *testing.T) {
	bus := NewEventBus()
	slow, quick := bus.addStream(nil, eventForm{}), bus.addStream(nil, eventForm{})
	for range maxPendingFrames + 1 {
		if err := bus.Publish(time.Unix(0, 0), deploy.AppTerminated{AppID: "/a"}); err != nil {
			t.Fatal(err)
		}
		<-quick.frames
	}
	n := 0
	for range slow.frames {
		n++
	}
	if n != maxPendingFrames {
		t.Errorf("the slow reader has %d events before its end, want %d", n, maxPendingFrames)
	}
	if !bus.streams[quick] || bus.streams[slow] {
		t.Errorf("got streams %v, want the quick one alone", bus.streams)
	}
}

// An idle stream gets comments, and ends with its request.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestClient(t)
		ctx, cancel := context.WithCancel(t.Context())
		out, in := io.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r := httptest.NewRequest(http.MethodGet, "/v2/events?event_type=none", nil).WithContext(ctx)
			a.handler.ServeHTTP(pipe{in}, r)
		}()
		began := time.Now()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != ": alive\r\n" {
			t.Fatalf("got %q, %v, want : alive", line, err)
		}
		if got := time.Since(began); got != keepAlive {
			t.Errorf("it came after %s, want %s", got, keepAlive)
		}
		cancel()
		<-ended
		if len(a.bus.streams) != 0 {
			t.Errorf("%d streams are still there", len(a.bus.streams))
		}
	})
}

// pipe is a ResponseWriter that writes into a pipe.
type pipe struct{ *io.PipeWriter }

func (pipe) Header() http.Header { return http.Header{} }
func (pipe) WriteHeader(int)     {}
func (pipe) Flush()              {}

func TestEventsHeadRequest(t *testing.T) {
	a := newTestClient(t)
	if got := a.send(http.MethodHead, "/v2/events", "", http.StatusOK).Header().Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type: got %q, want text/event-stream", got)
	}
}

// TestHeavyPlans checks that plans contain the groups before and after the deployment only for clients that request
// heavy plans.
func TestHeavyPlans(t *testing.T) {
	a := newTestClient(t)
	full, _ := openEventStream(t, a, "?event_type=deployment_info&plan-format=heavy")
	light, _ := openEventStream(t, a, "?event_type=deployment_info")
	named, _ := openEventStream(t, a, "?event_type=deployment_info&plan-format=light")
	a.send(http.MethodPost, "/v2/apps", `{"id": "/shop/web", "cmd": "serve"}`, http.StatusCreated)
	apps := func(plan map[string]any, group string) (ids []string) {
		root, ok := plan[group].(map[string]any)
		if !ok || root["id"] != "/" {
			t.Fatalf("%s is %v", group, plan[group])
		}
		groups, _ := root["groups"].([]any)
		for _, g := range groups {
			for _, one := range g.(map[string]any)["apps"].([]any) {
				ids = append(ids, one.(map[string]any)["id"].(string))
			}
		}
		return ids
	}
	_, ev := full()
	plan := ev["plan"].(map[string]any)
	if before, after := apps(plan, "original"), apps(plan, "target"); len(before) != 0 || !slices.Equal(after, []string{"/shop/web"}) {
		t.Errorf("original has %v, target %v", before, after)
	}
	for _, next := range []func() (string, map[string]any){light, named} {
		_, ev = next()
		plan = ev["plan"].(map[string]any)
		if plan["original"] != nil || plan["target"] != nil || plan["id"] == nil || plan["steps"] == nil {
			t.Errorf("a light plan is %v", plan)
		}
	}
}

// A stream with too many unread bytes is closed, although a single event may be larger than the limit.
func TestEventStreamIsClosedAtByteLimit(t *testing.T) {
	bus := NewEventBus()
	s := bus.addStream(nil, eventForm{})
	large := deploy.AppTerminated{AppID: strings.Repeat("x", maxPendingBytes+1)}
	for i, want := range []bool{true, false} {
		if err := bus.Publish(time.Unix(0, 0), large); err != nil {
			t.Fatal(err)
		}
		if bus.streams[s] != want {
			t.Errorf("after %d events the stream is there: %t, want %t", i+1, bus.streams[s], want)
		}
	}
}
