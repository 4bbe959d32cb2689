package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	api "mesos-gpu/internal/resourceprovider"
)

// Publish asks every provider that inUse names to make those resources ready,
// and waits for all answers. inUse is everything in use on the agent.
func (m *Manager) Publish(ctx context.Context, inUse []mesos.Resource) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.PublishTimeout)
	defer cancel()
	order, byProvider := split(inUse)
	for _, id := range order {
		if err := m.publish(ctx, id, byProvider[id]); err != nil {
			return fmt.Errorf("publish resources of provider %s: %w", id, err)
		}
	}
	return nil
}

// split sorts resources by provider, leaving out those of none.
func split(resources []mesos.Resource) (order []string, byProvider map[string]mesos.Resources) {
	byProvider = map[string]mesos.Resources{}
	for _, r := range mesos.Resources(resources).Clone().Unallocate() {
		if r.ProviderID == nil {
			continue
		}
		id := r.ProviderID.Value
		if byProvider[id] == nil {
			order = append(order, id)
		}
		byProvider[id] = byProvider[id].Plus(r)
	}
	return order, byProvider
}

func (m *Manager) publish(ctx context.Context, id string, resources []mesos.Resource) error {
	token := uuid.New()
	answer := make(chan api.PublishStatus, 1)
	m.mu.Lock()
	c, ok := m.providers[id]
	if !ok {
		m.mu.Unlock()
		return fmt.Errorf("it is not connected")
	}
	c.publishing[string(token[:])] = answer
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(c.publishing, string(token[:]))
		m.mu.Unlock()
	}()
	c.stream.Send(&api.Event{Type: api.EventPublishResources, PublishResources: &api.PublishResources{
		UUID: mesos.UUID{Value: token[:]}, Resources: resources,
	}})
	select {
	case status, open := <-answer:
		switch {
		case !open:
			return fmt.Errorf("it disconnected")
		case status != api.PublishOK:
			return fmt.Errorf("it answered %s", status)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no answer within %v: %w", m.cfg.PublishTimeout.Round(time.Millisecond), context.Cause(ctx))
	}
}
