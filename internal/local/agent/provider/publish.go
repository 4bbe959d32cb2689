package provider

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	api "mesos-gpu/internal/resourceprovider"
)

// Publish makes every provider with resources in wanted (those of one
// container) publish them, and waits for all answers. Each provider receives
// all of its resources in use, from both wanted and others, because
// PUBLISH_RESOURCES is a complete list.
func (m *ProviderManager) Publish(ctx context.Context, wanted, others []mesos.Resource) error {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.PublishTimeout)
	defer cancel()
	asked := map[string]bool{}
	for _, r := range wanted {
		if r.ProviderID == nil || asked[r.ProviderID.Value] {
			continue
		}
		id := r.ProviderID.Value
		asked[id] = true
		if err := m.publishTo(ctx, id, resourcesOf(id, wanted, others)); err != nil {
			return fmt.Errorf("publish resources of provider %s: %w", id, err)
		}
	}
	return nil
}

// resourcesOf returns the sum of one provider's resources.
func resourcesOf(id string, groups ...[]mesos.Resource) mesos.Resources {
	var sum mesos.Resources
	for _, r := range mesos.Resources(slices.Concat(groups...)).Clone().Unallocate() {
		if r.ProviderID != nil && r.ProviderID.Value == id {
			sum = sum.Plus(r)
		}
	}
	return sum
}

func (m *ProviderManager) publishTo(ctx context.Context, id string, resources []mesos.Resource) error {
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
	c.stream.Send(&api.ProviderEvent{Type: api.EventPublishResources, PublishResources: &api.PublishResources{
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
