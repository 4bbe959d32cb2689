package marathon

import (
	"fmt"
	"time"

	gomarathon "github.com/gambol99/go-marathon"
)

// ear counts the events that the client has heard.
type ear struct{ events gomarathon.EventsChannel }

// listen returns when the stream is there: from then on nothing is missed.
func (c *client) listen() *ear {
	c.Helper()
	events, err := c.AddEventsListener(1<<30 - 1)
	c.check(err)
	first := time.After(patience)
	select {
	case ev := <-events:
		if ev.Name != "event_stream_attached" {
			c.Fatalf("the first event is %s", ev)
		}
	case <-first:
		c.Fatal("no stream of events")
	}
	e := &ear{make(gomarathon.EventsChannel, 4096)}
	go func() {
		for ev := range events {
			e.events <- ev
		}
		close(e.events)
	}()
	c.Cleanup(func() { c.RemoveEventsListener(events) })
	return e
}

// all checks that every kind of event has come, and of what the client did.
// The client hands them over in any order.
func (e *ear) all(c *client) {
	missing := map[string]bool{
		"api_post_event": true, "app_terminated_event " + web: true, "app_terminated_event /lab/train": true, "health_status_changed_event true": true,
		"group_change_success": true, "deployment_info": true, "deployment_step_success": true, "deployment_success": true, "deployment_failed": true,
	}
	for _, state := range []string{"STAGING", "RUNNING", "KILLING", "KILLED"} {
		missing["status_update_event TASK_"+state] = true
	}
	deadline := time.After(patience)
	for len(missing) > 0 {
		select {
		case ev := <-e.events:
			delete(missing, told(ev))
		case <-deadline:
			c.Fatalf("these events never came: %v", missing)
		}
	}
}

// told is an event's name, and what tells it from others of the name.
func told(ev *gomarathon.Event) string {
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
