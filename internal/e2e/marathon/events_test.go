package marathon

import (
	"fmt"
	"time"

	gomarathon "github.com/gambol99/go-marathon"
)

// eventRecorder receives the events of the client.
type eventRecorder struct{ events gomarathon.EventsChannel }

// recordEvents starts to record events. It returns when the stream is attached, so no later
// event is missed.
func (c *client) recordEvents() *eventRecorder {
	c.Helper()
	events, err := c.AddEventsListener(1<<30 - 1)
	c.requireNoError(err)
	first := time.After(waitTimeout)
	select {
	case ev := <-events:
		if ev.Name != "event_stream_attached" {
			c.Fatalf("the first event is %s", ev)
		}
	case <-first:
		c.Fatal("the event stream was not attached")
	}
	e := &eventRecorder{make(gomarathon.EventsChannel, 4096)}
	go func() {
		for ev := range events {
			e.events <- ev
		}
		close(e.events)
	}()
	c.Cleanup(func() { c.RemoveEventsListener(events) })
	return e
}

// requireAllEvents waits until each kind of event has been received for the operations of the
// test. The client delivers events in any order.
func (e *eventRecorder) requireAllEvents(c *client) {
	missing := map[string]bool{
		"api_post_event": true, "app_terminated_event " + webID: true, "app_terminated_event /lab/train": true, "health_status_changed_event true": true,
		"group_change_success": true, "deployment_info": true, "deployment_step_success": true, "deployment_success": true, "deployment_failed": true,
	}
	for _, state := range []string{"STAGING", "RUNNING", "KILLING", "KILLED"} {
		missing["status_update_event TASK_"+state] = true
	}
	deadline := time.After(waitTimeout)
	for len(missing) > 0 {
		select {
		case ev := <-e.events:
			delete(missing, eventKey(ev))
		case <-deadline:
			c.Fatalf("events not received: %v", missing)
		}
	}
}

// eventKey returns the name of an event and the field that distinguishes it from others of the
// name.
func eventKey(ev *gomarathon.Event) string {
	switch body := ev.Event.(type) {
	case *gomarathon.EventStatusUpdate:
		return fmt.Sprint(ev.Name, " ", body.TaskStatus)
	case *gomarathon.EventAppTerminated:
		return fmt.Sprint(ev.Name, " ", body.AppID)
	case *gomarathon.EventHealthCheckChanged:
		return fmt.Sprint(ev.Name, " ", body.Alive)
	}
	return ev.Name
}
