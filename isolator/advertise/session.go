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

// session is one subscription, from SUBSCRIBE until its connection is closed.
// It reports whether the agent took the provider.
func (p *provider) session(ctx context.Context) (subscribed bool, err error) {
	who, err := p.whoAmI(ctx)
	if err != nil {
		return false, err
	}
	s, err := subscribe(ctx, p.Config, &rp.Call{Type: rp.CallSubscribe, Subscribe: &rp.Subscribe{
		ResourceProviderInfo: mesos.ResourceProviderInfo{ID: providerID(who.provider), Type: providerType, Name: providerName},
	}})
	if err != nil {
		return false, err
	}
	defer s.close(ctx, p.Config)
	stop := context.AfterFunc(ctx, s.interrupt)
	defer stop()
	id, err := p.welcome(ctx, s, who)
	if err != nil {
		return false, err
	}
	return true, p.serve(ctx, s, id)
}

// whoAmI is the identity to come with. An agent that has another id than the
// one that gave it, as after a reboot of a host whose resources changed, would
// drop the provider without a word; nor has it any task of before.
func (p *provider) whoAmI(ctx context.Context) (identity, error) {
	saved, err := p.state.identity()
	if err != nil {
		return identity{}, err
	}
	agent, err := p.agentID(ctx)
	if errors.Is(err, errMute) {
		if !p.warned {
			p.warned = true
			p.Log.WithError(err).WithField("agent", p.AgentURL).Warn("cannot learn the agent's id: should it get another one, remove " + p.state.idFile())
		}
		return saved, nil
	}
	if err != nil {
		return identity{}, err
	}
	if saved.agent != "" && saved.agent != agent {
		p.Log.WithField("agent", agent).WithField("before", saved.agent).Info("the agent has a new id: subscribing as a new provider")
		p.published = nil
		return identity{agent: agent}, nil
	}
	return identity{provider: saved.provider, agent: agent}, nil
}

// welcome awaits SUBSCRIBED and checkpoints the identity.
func (p *provider) welcome(ctx context.Context, s *stream, who identity) (id string, err error) {
	event, err := s.next(ctx, time.Now().Add(p.AnswerTimeout))
	if errors.Is(err, os.ErrDeadlineExceeded) && who.provider != "" {
		return "", fmt.Errorf("the agent does not answer for provider %s within %s: if it was set up anew (another agent id), it does not know that provider; remove %s",
			who.provider, p.AnswerTimeout, p.state.idFile())
	}
	if err != nil {
		return "", err
	}
	if event.Type != rp.EventSubscribed || event.Subscribed == nil {
		return "", fmt.Errorf("first event is %s, want SUBSCRIBED", event.Type)
	}
	got := identity{provider: event.Subscribed.ProviderID.Value, agent: who.agent}
	if got.provider == "" || who.provider != "" && got.provider != who.provider {
		return "", fmt.Errorf("the agent subscribed provider %q, asked for was %q", got.provider, who.provider)
	}
	saved, err := p.state.identity()
	if err != nil || got == saved {
		return got.provider, err
	}
	// Another agent may have taken the place of the one that was asked: its
	// provider would be checkpointed under the wrong id.
	if who.agent != "" {
		now, err := p.agentID(ctx)
		if err != nil {
			return "", fmt.Errorf("make sure that the agent is still %s: %w", who.agent, err)
		}
		if now != who.agent {
			return "", fmt.Errorf("agent %s became %s while the provider subscribed", who.agent, now)
		}
	}
	return got.provider, p.state.setIdentity(got)
}

func providerID(id string) *mesos.ResourceProviderID {
	if id == "" {
		return nil
	}
	return &mesos.ResourceProviderID{Value: id}
}
