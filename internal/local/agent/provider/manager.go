// Package provider is the agent's side of Mesos's resource provider API. It
// keeps which providers are connected and what they advertise, and asks them
// to publish resources before a task uses them. It decides nothing about
// where the resources go.
package provider

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	api "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/internal/wire"
)

// Config of a Manager.
type Config struct {
	Log logrus.FieldLogger
	// Changed is called after a provider's resources changed or went.
	Changed func()
	// PublishTimeout bounds how long a provider may take to publish.
	PublishTimeout time.Duration
}

// Provider is one that is connected.
type Provider struct {
	Info      mesos.ResourceProviderInfo
	Resources []mesos.Resource
}

// Manager serves the API. Its methods may be called from any goroutine.
type Manager struct {
	cfg Config

	mu        sync.Mutex
	providers map[string]*connection
}

// connection is one live subscription.
type connection struct {
	info      mesos.ResourceProviderInfo
	stream    *wire.Stream
	streamID  string
	resources []mesos.Resource
	// publishing waits for the answers to PUBLISH_RESOURCES, by uuid.
	publishing map[string]chan api.PublishStatus
}

// New makes a Manager without providers.
func New(cfg Config) *Manager { return &Manager{cfg: cfg, providers: map[string]*connection{}} }

// ServeHTTP handles the calls of providers.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call api.Call
	if err := wire.ReadCall(r, &call); err != nil {
		wire.WriteError(w, err)
		return
	}
	if call.Type == api.CallSubscribe {
		m.subscribe(w, r, call.Subscribe)
		return
	}
	if err := m.call(r.Header.Get(wire.HeaderStreamID), &call); err != nil {
		wire.WriteError(w, err)
		return
	}
	if call.Type == api.CallUpdateState {
		m.cfg.Changed()
	}
	w.WriteHeader(http.StatusAccepted)
}

// subscribe serves a provider's stream until it goes away.
func (m *Manager) subscribe(w http.ResponseWriter, r *http.Request, s *api.Subscribe) {
	if s == nil || s.ResourceProviderInfo.Type == "" || s.ResourceProviderInfo.Name == "" {
		wire.WriteError(w, wire.Errorf(http.StatusBadRequest, "expecting 'subscribe.resource_provider_info' with type and name"))
		return
	}
	stream, err := wire.NewStream(r)
	if err != nil {
		wire.WriteError(w, err)
		return
	}
	c := &connection{info: s.ResourceProviderInfo, stream: stream, streamID: uuid.NewString(), publishing: map[string]chan api.PublishStatus{}}
	if err := m.add(c); err != nil {
		wire.WriteError(w, err)
		return
	}
	log := m.cfg.Log.WithFields(logrus.Fields{"provider": c.info.ID.Value, "name": c.info.Name})
	log.Info("resource provider subscribed")
	stream.Send(&api.Event{Type: api.EventSubscribed, Subscribed: &api.Subscribed{ProviderID: *c.info.ID}})
	err = stream.Serve(r.Context(), w, c.streamID)
	m.remove(c)
	log.WithField("cause", err).Info("resource provider disconnected")
}

// add connects a provider. One that brings an id keeps it, unless another
// connection has it: two of them would overwrite each other's resources.
func (m *Manager) add(c *connection) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.info.ID == nil || c.info.ID.Value == "" {
		c.info.ID = &mesos.ResourceProviderID{Value: uuid.NewString()}
	}
	if _, taken := m.providers[c.info.ID.Value]; taken {
		return wire.Errorf(http.StatusBadRequest, "resource provider %s is already connected: end that connection first", c.info.ID.Value)
	}
	m.providers[c.info.ID.Value] = c
	return nil
}

func (m *Manager) remove(c *connection) {
	m.mu.Lock()
	delete(m.providers, c.info.ID.Value)
	had := len(c.resources) > 0
	for _, answer := range c.publishing {
		close(answer)
	}
	c.publishing = nil
	m.mu.Unlock()
	if had {
		m.cfg.Changed()
	}
}

// call handles what a subscribed provider says.
func (m *Manager) call(streamID string, call *api.Call) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if call.ResourceProviderID == nil {
		return wire.Errorf(http.StatusBadRequest, "expecting 'resource_provider_id' to be present")
	}
	c, ok := m.providers[call.ResourceProviderID.Value]
	if !ok {
		return wire.Errorf(http.StatusBadRequest, "resource provider %s is not subscribed", call.ResourceProviderID.Value)
	}
	if c.streamID != streamID {
		return wire.Errorf(http.StatusBadRequest, "the call's %s is not the subscription's", wire.HeaderStreamID)
	}
	switch call.Type {
	case api.CallUpdateState:
		return c.update(call.UpdateState)
	case api.CallUpdatePublishResourcesStatus:
		return c.published(call.UpdatePublishResourcesStatus)
	}
	return wire.Errorf(http.StatusNotImplemented, "call %s is not implemented", call.Type)
}

func (c *connection) update(state *api.UpdateState) error {
	if state == nil {
		return wire.Errorf(http.StatusBadRequest, "expecting 'update_state' to be present")
	}
	for _, r := range state.Resources {
		if r.ProviderID == nil || r.ProviderID.Value != c.info.ID.Value {
			return wire.Errorf(http.StatusBadRequest, "resource %s of provider %s does not carry its id", r.Name, c.info.ID.Value)
		}
		if err := r.Validate(); err != nil {
			return wire.Errorf(http.StatusBadRequest, "resource %s of provider %s: %v", r.Name, c.info.ID.Value, err)
		}
	}
	c.resources = state.Resources
	return nil
}

// published passes a provider's answer on to the launch that waits for it;
// one that came too late is dropped.
func (c *connection) published(status *api.UpdatePublishResourcesStatus) error {
	if status == nil {
		return wire.Errorf(http.StatusBadRequest, "expecting 'update_publish_resources_status' to be present")
	}
	if answer, ok := c.publishing[string(status.UUID.Value)]; ok {
		delete(c.publishing, string(status.UUID.Value))
		answer <- status.Status
	}
	return nil
}

// Providers lists who is connected, by id.
func (m *Manager) Providers() []Provider {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Provider, 0, len(m.providers))
	for _, c := range m.providers {
		all = append(all, Provider{Info: c.info, Resources: c.resources})
	}
	slices.SortFunc(all, func(a, b Provider) int { return strings.Compare(a.Info.ID.Value, b.Info.ID.Value) })
	return all
}

// Resources is what all connected providers advertise.
func (m *Manager) Resources() []mesos.Resource {
	var all []mesos.Resource
	for _, p := range m.Providers() {
		all = append(all, p.Resources...)
	}
	return all
}

// Close ends every connection.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.providers {
		c.stream.Close()
	}
}
