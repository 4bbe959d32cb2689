package advertise

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	rp "mesos-gpu/internal/resourceprovider"
)

// The agent stores type and name with the provider's id and drops, without a
// word, a provider that comes back with others. They must never change.
const (
	providerType = "io.mesos.gpu"
	providerName = "gpus"
)

// ErrRemoved is returned by Run when the agent's operator has removed the
// provider: its GPUs stay out of the offers until the daemon is started again.
var ErrRemoved = errors.New("the agent removed this resource provider")

// Config says which agent to tell of which GPUs.
type Config struct {
	// AgentURL is the agent's, "http://host:5051/slave(1)".
	AgentURL string
	// StateDir holds the lock and the provider id.
	StateDir string
	Host     gpu.Host
	Log      logrus.FieldLogger

	// Advertised, where set, is called each time the agent has taken the GPUs.
	Advertised func()

	// Authorization is the header sent to an agent that asks who calls.
	Authorization string
	// TLS is used for an https URL; nil means the system's certificates.
	TLS *tls.Config

	// BackoffMin and BackoffMax bound the wait before coming back, 1 s and
	// 30 s. AnswerTimeout bounds the wait for an answer, 30 s. After
	// CloseTimeout, 10 s, an agent that has not closed its side is warned of,
	// and the end of Run no longer waits for it.
	BackoffMin, BackoffMax, AnswerTimeout, CloseTimeout time.Duration
}

func (c Config) withDefaults() (Config, error) {
	u, err := url.Parse(c.AgentURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return c, fmt.Errorf("agent URL %q is none; want for example http://127.0.0.1:5051/slave(1)", c.AgentURL)
	}
	if c.StateDir == "" {
		return c, errors.New("no state folder given: the provider id must outlive the daemon")
	}
	if c.Log == nil {
		return c, errors.New("no log given")
	}
	for value, fallback := range map[*time.Duration]time.Duration{
		&c.BackoffMin: time.Second, &c.BackoffMax: 30 * time.Second,
		&c.AnswerTimeout: 30 * time.Second, &c.CloseTimeout: 10 * time.Second,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	return c, nil
}

// provider is a running Run. One goroutine owns it.
type provider struct {
	Config
	state  *state
	client *http.Client
}

// Run advertises the host's GPUs until ctx ends, and comes back whenever the
// agent goes. It holds one connection at a time: a new one follows only once
// the old one is closed on both sides. On return the GPUs are out of the
// offers; tasks that hold some go on.
func Run(ctx context.Context, c Config) error {
	c, err := c.withDefaults()
	if err != nil {
		return fmt.Errorf("advertise GPUs: %w", err)
	}
	st, err := openState(c.StateDir)
	if err != nil {
		return fmt.Errorf("advertise GPUs: %w", err)
	}
	defer st.close()
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig: c.TLS,
	}
	defer transport.CloseIdleConnections()
	p := &provider{Config: c, state: st, client: &http.Client{Transport: transport}}

	for wait := c.BackoffMin; ; {
		subscribed, err := p.session(ctx)
		transport.CloseIdleConnections()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRemoved):
			return fmt.Errorf("advertise GPUs: %w", err)
		case subscribed:
			wait = c.BackoffMin
		}
		// The jitter keeps the agents of a rack from coming back in step.
		pause := wait + rand.N(wait/2+1)
		c.Log.WithError(err).WithField("agent", c.AgentURL).WithField("retry_in", pause.String()).Warn("GPUs not advertised")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		wait = min(2*wait, c.BackoffMax)
	}
}

// session is one subscription, from SUBSCRIBE until its connection is closed.
// It reports whether the agent took the provider.
func (p *provider) session(ctx context.Context) (subscribed bool, err error) {
	id, err := p.state.id()
	if err != nil {
		return false, err
	}
	s, err := subscribe(ctx, p.Config, &rp.Call{Type: rp.CallSubscribe, Subscribe: &rp.Subscribe{
		ResourceProviderInfo: mesos.ResourceProviderInfo{ID: providerID(id), Type: providerType, Name: providerName},
	}})
	if err != nil {
		return false, err
	}
	defer s.close(ctx, p.Config)
	stop := context.AfterFunc(ctx, s.interrupt)
	defer stop()

	event, err := s.next(ctx, time.Now().Add(p.AnswerTimeout))
	if errors.Is(err, os.ErrDeadlineExceeded) && id != "" {
		return false, fmt.Errorf("the agent does not answer for provider %s: if it was set up anew (another agent id), it does not know that provider; remove %s",
			id, p.state.idFile())
	}
	if err != nil {
		return false, err
	}
	if event.Type != rp.EventSubscribed || event.Subscribed == nil {
		return false, fmt.Errorf("first event is %s, want SUBSCRIBED", event.Type)
	}
	got := event.Subscribed.ProviderID.Value
	if got == "" || id != "" && got != id {
		return false, fmt.Errorf("the agent subscribed provider %q, asked for was %q", got, id)
	}
	if id == "" {
		if err := p.state.setID(got); err != nil {
			return false, err
		}
	}
	return true, p.serve(ctx, s, got)
}

func providerID(id string) *mesos.ResourceProviderID {
	if id == "" {
		return nil
	}
	return &mesos.ResourceProviderID{Value: id}
}

// serve tells the agent of the GPUs and answers its events until the stream
// ends.
func (p *provider) serve(ctx context.Context, s *stream, id string) error {
	send := func(call *rp.Call) error {
		call.ResourceProviderID = providerID(id)
		return p.post(ctx, p.client, s.id, call)
	}
	if err := send(stateOf(p.Host, id)); err != nil {
		return err
	}
	p.Log.WithField("agent", p.AgentURL).WithField("provider", id).WithField("gpus", len(p.Host.Devices)).Info("GPUs advertised")
	if p.Advertised != nil {
		p.Advertised()
	}
	for {
		event, err := s.next(ctx, time.Time{})
		if err != nil {
			return err
		}
		if event.Type == rp.EventTeardown {
			return errors.Join(ErrRemoved, p.state.forget())
		}
		for _, call := range p.answer(event, id) {
			if err := send(call); err != nil {
				return err
			}
		}
	}
}
