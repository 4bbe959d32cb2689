package api

import (
	"encoding/json"
	"fmt"
	"time"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// Events in addition to those of package deploy.
type (
	// APIPost reports a request that defined an app.
	APIPost struct {
		ClientIP string        `json:"clientIp"`
		URI      string        `json:"uri"`
		App      *marathon.App `json:"appDefinition"`
	}
	// StreamAttached and StreamDetached report the start and the end of an event
	// stream.
	StreamAttached struct {
		RemoteAddress string `json:"remoteAddress"`
	}
	StreamDetached struct {
		RemoteAddress string `json:"remoteAddress"`
	}
	// HealthStatusChanged is deploy.InstanceHealthChanged in the older form that
	// load balancers read.
	HealthStatusChanged struct {
		AppID      string `json:"appId"`
		InstanceID string `json:"instanceId"`
		Version    string `json:"version"`
		Alive      bool   `json:"alive"`
	}
)

func (APIPost) EventType() string             { return "api_post_event" }
func (StreamAttached) EventType() string      { return "event_stream_attached" }
func (StreamDetached) EventType() string      { return "event_stream_detached" }
func (HealthStatusChanged) EventType() string { return "health_status_changed_event" }

// withLegacyForm returns an event, and its older form if it has one.
func withLegacyForm(ev deploy.BusEvent) []deploy.BusEvent {
	h, ok := ev.(deploy.InstanceHealthChanged)
	if !ok || h.Healthy == nil {
		return []deploy.BusEvent{ev}
	}
	return []deploy.BusEvent{ev, HealthStatusChanged{AppID: h.AppID, InstanceID: h.InstanceID, Version: h.Version, Alive: *h.Healthy}}
}

// encodeFrame returns an event in the format of the stream, with type and time last. Lines end
// with CR LF as in Marathon: some clients read no other line ends.
func encodeFrame(ev deploy.BusEvent, at time.Time) ([]byte, error) {
	own, err := json.Marshal(ev)
	if err != nil {
		return nil, fmt.Errorf("write the event %s: %w", ev.EventType(), err)
	}
	common, err := json.Marshal(struct {
		EventType string `json:"eventType"`
		Timestamp Time   `json:"timestamp"`
	}{ev.EventType(), Time{at}})
	if err != nil {
		return nil, fmt.Errorf("write the event %s: %w", ev.EventType(), err)
	}
	fields := string(own[:len(own)-1])
	if fields != "{" {
		fields += ","
	}
	return fmt.Appendf(nil, "event: %s\r\ndata: %s%s\r\n\r\n", ev.EventType(), fields, common[1:]), nil
}
