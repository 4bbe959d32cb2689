// Package provider is the agent's side of Mesos's resource provider API. It
// tracks the connected providers and their resources, and requests that they
// publish resources before a task uses them. It does not allocate resources.
package provider

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/mesosapi"
	api "mesos-gpu/internal/resourceprovider"
)

// ManagerConfig configures a ProviderManager.
type ManagerConfig struct {
	Log logrus.FieldLogger
	// Changed is called after a provider's resources have changed or the
	// provider has disconnected.
	Changed func()
	// PublishTimeout limits the time a provider may take to publish resources.
	PublishTimeout time.Duration
}

// ProviderManager serves the API. Its methods may be called from any goroutine.
type ProviderManager struct {
	cfg ManagerConfig

	mu        sync.Mutex
	providers map[string]*providerConnection
}

// providerConnection is one live subscription.
type providerConnection struct {
	info      mesos.ResourceProviderInfo
	stream    *mesosapi.EventStream
	streamID  string
	resources []mesos.Resource
	// publishing maps the uuid of a PUBLISH_RESOURCES event to the channel for
	// its answer.
	publishing map[string]chan api.PublishStatus
}

// New returns a ProviderManager without providers.
func New(cfg ManagerConfig) *ProviderManager {
	return &ProviderManager{cfg: cfg, providers: map[string]*providerConnection{}}
}

// ServeHTTP handles the calls of providers.
func (m *ProviderManager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call api.ProviderCall
	if err := mesosapi.ReadCall(r, &call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	if call.Type == api.CallSubscribe {
		m.serveSubscription(w, r, call.Subscribe)
		return
	}
	if err := m.handleCall(r.Header.Get(mesosapi.HeaderStreamID), &call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	if call.Type == api.CallUpdateState {
		m.cfg.Changed()
	}
	w.WriteHeader(http.StatusAccepted)
}

// serveSubscription serves a provider's event stream until it disconnects.
func (m *ProviderManager) serveSubscription(w http.ResponseWriter, r *http.Request, s *api.Subscribe) {
	if s == nil || s.ResourceProviderInfo.Type == "" || s.ResourceProviderInfo.Name == "" {
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusBadRequest, "expecting 'subscribe.resource_provider_info' with type and name"))
		return
	}
	stream, err := mesosapi.NewStream(r)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	c := &providerConnection{info: s.ResourceProviderInfo, stream: stream, streamID: uuid.NewString(), publishing: map[string]chan api.PublishStatus{}}
	if err := m.addConnection(c); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	log := m.cfg.Log.WithFields(logrus.Fields{"provider": c.info.ID.Value, "name": c.info.Name})
	log.Info("resource provider subscribed")
	stream.Send(&api.ProviderEvent{Type: api.EventSubscribed, Subscribed: &api.Subscribed{ProviderID: *c.info.ID}})
	err = stream.Serve(r.Context(), w, c.streamID)
	m.removeConnection(c)
	log.WithField("cause", err).Info("resource provider disconnected")
}

// addConnection registers a provider's connection. It assigns an id to a new
// provider. It rejects an id that another connection uses: the two would
// overwrite each other's resources.
func (m *ProviderManager) addConnection(c *providerConnection) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.info.ID == nil || c.info.ID.Value == "" {
		c.info.ID = &mesos.ResourceProviderID{Value: uuid.NewString()}
	}
	if _, taken := m.providers[c.info.ID.Value]; taken {
		return mesosapi.Errorf(http.StatusBadRequest, "resource provider %s is already connected: end that connection first", c.info.ID.Value)
	}
	m.providers[c.info.ID.Value] = c
	return nil
}

func (m *ProviderManager) removeConnection(c *providerConnection) {
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

// handleCall handles a call of a subscribed provider.
func (m *ProviderManager) handleCall(streamID string, call *api.ProviderCall) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if call.ResourceProviderID == nil {
		return mesosapi.Errorf(http.StatusBadRequest, "expecting 'resource_provider_id' to be present")
	}
	c, ok := m.providers[call.ResourceProviderID.Value]
	if !ok {
		return mesosapi.Errorf(http.StatusBadRequest, "resource provider %s is not subscribed", call.ResourceProviderID.Value)
	}
	if c.streamID != streamID {
		return mesosapi.Errorf(http.StatusBadRequest, "the call's %s is not the subscription's", mesosapi.HeaderStreamID)
	}
	switch call.Type {
	case api.CallUpdateState:
		return c.updateState(call.UpdateState)
	case api.CallUpdatePublishResourcesStatus:
		return c.publishAnswered(call.UpdatePublishResourcesStatus)
	}
	return mesosapi.Errorf(http.StatusNotImplemented, "call %s is not implemented", call.Type)
}

func (c *providerConnection) updateState(state *api.UpdateState) error {
	if state == nil {
		return mesosapi.Errorf(http.StatusBadRequest, "expecting 'update_state' to be present")
	}
	for _, r := range state.Resources {
		if r.ProviderID == nil || r.ProviderID.Value != c.info.ID.Value {
			return mesosapi.Errorf(http.StatusBadRequest, "resource %s of provider %s does not carry its id", r.Name, c.info.ID.Value)
		}
		if err := r.Validate(); err != nil {
			return mesosapi.Errorf(http.StatusBadRequest, "resource %s of provider %s: %v", r.Name, c.info.ID.Value, err)
		}
	}
	c.resources = state.Resources
	return nil
}

// publishAnswered passes a provider's answer to the waiting launch. It drops
// late answers.
func (c *providerConnection) publishAnswered(status *api.UpdatePublishResourcesStatus) error {
	if status == nil {
		return mesosapi.Errorf(http.StatusBadRequest, "expecting 'update_publish_resources_status' to be present")
	}
	if answer, ok := c.publishing[string(status.UUID.Value)]; ok {
		delete(c.publishing, string(status.UUID.Value))
		answer <- status.Status
	}
	return nil
}

// Resources returns the resources of all connected providers, sorted by the
// provider's id.
func (m *ProviderManager) Resources() []mesos.Resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []mesos.Resource
	for _, id := range slices.Sorted(maps.Keys(m.providers)) {
		all = append(all, m.providers[id].resources...)
	}
	return all
}

// Close closes every connection.
func (m *ProviderManager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.providers {
		c.stream.Close()
	}
}
