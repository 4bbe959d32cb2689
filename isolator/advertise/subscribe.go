package advertise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	rp "mesos-gpu/internal/resourceprovider"
)

// runSession is one subscription, from SUBSCRIBE until its connection is
// closed. subscribed reports whether the agent accepted the provider.
func (p *resourceProvider) runSession(ctx context.Context) (subscribed bool, err error) {
	who, err := p.chooseIdentity(ctx)
	if err != nil {
		return false, err
	}
	s, err := openSubscription(ctx, p.ProviderConfig, &rp.ProviderCall{Type: rp.CallSubscribe, Subscribe: &rp.Subscribe{
		ResourceProviderInfo: mesos.ResourceProviderInfo{ID: providerIDMessage(who.provider), Type: providerType, Name: providerName},
	}})
	if err != nil {
		return false, err
	}
	defer s.close(ctx, p.ProviderConfig)
	stop := context.AfterFunc(ctx, s.interrupt)
	defer stop()
	id, err := p.awaitSubscribed(ctx, s, who)
	if err != nil {
		return false, err
	}
	return true, p.serveSession(ctx, s, id)
}

// chooseIdentity returns the identity to subscribe with. If the agent's id has
// changed since it assigned the provider id, as after a reboot of a host whose
// resources changed, the agent would silently drop the provider, so a new one
// is needed. Such an agent has no earlier tasks.
func (p *resourceProvider) chooseIdentity(ctx context.Context) (providerIdentity, error) {
	saved, err := p.state.readIdentity()
	if err != nil {
		return providerIdentity{}, err
	}
	agent, err := p.readAgentID(ctx)
	if errors.Is(err, errAgentRefusesCaller) {
		if !p.warned {
			p.warned = true
			p.Log.WithError(err).WithField("agent", p.AgentURL).Warn("cannot read the agent's id: if it changes, remove " + p.state.idPath())
		}
		return saved, nil
	}
	if err != nil {
		return providerIdentity{}, err
	}
	if saved.agent != "" && saved.agent != agent {
		p.Log.WithField("agent", agent).WithField("before", saved.agent).Info("the agent has a new id: subscribing as a new provider")
		p.publishedDevices = nil
		return providerIdentity{agent: agent}, nil
	}
	return providerIdentity{provider: saved.provider, agent: agent}, nil
}

// awaitSubscribed waits for SUBSCRIBED and writes the identity.
func (p *resourceProvider) awaitSubscribed(ctx context.Context, s *providerStream, who providerIdentity) (id string, err error) {
	event, err := s.nextEvent(ctx, time.Now().Add(p.AnswerTimeout))
	if errors.Is(err, os.ErrDeadlineExceeded) && who.provider != "" {
		return "", fmt.Errorf("the agent does not answer for provider %s within %s: if its agent id has changed, it does not know that provider; remove %s",
			who.provider, p.AnswerTimeout, p.state.idPath())
	}
	if err != nil {
		return "", err
	}
	if event.Type != rp.EventSubscribed || event.Subscribed == nil {
		return "", fmt.Errorf("first event is %s, want SUBSCRIBED", event.Type)
	}
	got := providerIdentity{provider: event.Subscribed.ProviderID.Value, agent: who.agent}
	if got.provider == "" || who.provider != "" && got.provider != who.provider {
		return "", fmt.Errorf("the agent subscribed provider %q, asked for was %q", got.provider, who.provider)
	}
	saved, err := p.state.readIdentity()
	if err != nil || got == saved {
		return got.provider, err
	}
	// Another agent may have replaced the one whose id was read. The
	// provider's id would then be stored with the wrong agent id.
	if who.agent != "" {
		now, err := p.readAgentID(ctx)
		if err != nil {
			return "", fmt.Errorf("check that the agent is still %s: %w", who.agent, err)
		}
		if now != who.agent {
			return "", fmt.Errorf("agent %s became %s while the provider subscribed", who.agent, now)
		}
	}
	return got.provider, p.state.writeIdentity(got)
}

func providerIDMessage(id string) *mesos.ResourceProviderID {
	if id == "" {
		return nil
	}
	return &mesos.ResourceProviderID{Value: id}
}
