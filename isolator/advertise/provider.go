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
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
)

// The agent stores type and name with the provider's id and drops, without a
// word, a provider that comes back with others. They must never change.
const (
	providerType = "io.mesos.gpu"
	providerName = "gpus"
)

// ErrRemoved is returned by Run when the agent's operator has removed the
// provider: its ResourceGPUs stay out of the offers until the daemon is started again.
var ErrRemoved = errors.New("the agent removed this resource provider")

// ProviderConfig says which agent to tell of which ResourceGPUs.
type ProviderConfig struct {
	// AgentURL is the agent's, "http://host:5051/slave(1)".
	AgentURL string
	// StateDir holds the lock and the provider id.
	StateDir string
	// Host is what is advertised at first, each device by its name. Hosts,
	// where set, brings what is later: a device that failed is not among its
	// devices, but is told to be withheld where its Withheld says so. Run
	// takes a state at once, whatever the agent does, and of several the last;
	// a closed channel brings no more.
	Host        gpu.Host
	HostUpdates <-chan gpu.Host
	// Role is that of a Machine.
	Role string
	// Modes, where set, says which devices are advertised in parts.
	Modes SharingModes
	Log   logrus.FieldLogger

	// OnAdvertised, where set, is called each time the agent has taken the ResourceGPUs.
	OnAdvertised func()

	// Authorization is the header sent to an agent that asks who calls.
	Authorization string
	// TLS is used for an https URL; nil means the system's certificates.
	TLS *tls.Config

	// BackoffMin and BackoffMax bound the wait before coming back, 1 s and
	// 30 s. AnswerTimeout bounds the wait for an answer, 30 s, and AskTimeout
	// that for what the agent tells of itself, 2 s. After CloseTimeout, 10 s,
	// an agent that has not closed its side is warned of, and the end of Run no
	// longer waits for it. InUseInterval is how often the agent is asked whether
	// devices that are no longer offered are still in use, 5 s.
	BackoffMin, BackoffMax, AnswerTimeout, AskTimeout, CloseTimeout, InUseInterval time.Duration
}

// SharingModes decides in which form each device is advertised. share.ModeStore does.
type SharingModes interface {
	// ReconcileModes hears in which form tasks hold devices, if that is known, and may
	// change the form of those that are idle. On an error all stay as they are.
	ReconcileModes(held map[string]share.DeviceUse, known bool) error
	// SharedCapacity is how much of a device is advertised in parts, where it is.
	SharedCapacity(uuid string) (all gpu.DeviceShare, ok bool)
	// HasPending tells that a device is to change its form once it is idle, and
	// Changed has a token where one more is.
	HasPending() bool
	Changes() <-chan struct{}
}

func (c ProviderConfig) withDefaults() (ProviderConfig, error) {
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
		&c.AnswerTimeout: 30 * time.Second, &c.AskTimeout: 2 * time.Second, &c.CloseTimeout: 10 * time.Second,
		&c.InUseInterval: 5 * time.Second,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	return c, nil
}

// resourceProvider is a running Run. One goroutine owns it.
type resourceProvider struct {
	ProviderConfig
	state  *providerState
	client *http.Client
	hosts  *hostState
	// publishedDevices are the devices in use as the agent last said; nil before it
	// did.
	publishedDevices map[string]bool
	// warned keeps what does not change from being said again and again.
	warned bool
}

// Run advertises ResourceGPUs until ctx ends, and comes back whenever the agent goes,
// with the newest state. It holds one connection at a time: a new one follows
// only once the old one is closed on both sides. On return the ResourceGPUs are out of
// the offers; tasks that hold some go on.
func Run(ctx context.Context, c ProviderConfig) error {
	c, err := c.withDefaults()
	if err != nil {
		return fmt.Errorf("advertise GPUs: %w", err)
	}
	st, err := openProviderState(c.StateDir)
	if err != nil {
		return fmt.Errorf("advertise GPUs: %w", err)
	}
	defer st.close()
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig: c.TLS,
	}
	defer transport.CloseIdleConnections()
	p := &resourceProvider{ProviderConfig: c, state: st, client: &http.Client{Transport: transport}, hosts: newHostState(c.Host)}

	ctx, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { p.hosts.followHosts(ctx, c.HostUpdates) })
	defer follower.Wait()
	defer stop()
	if err := p.runSessions(ctx, transport.CloseIdleConnections); err != nil {
		return fmt.Errorf("advertise GPUs: %w", err)
	}
	return nil
}

// runSessions goes from session to session.
func (p *resourceProvider) runSessions(ctx context.Context, hangUp func()) error {
	for wait := p.BackoffMin; ; {
		subscribed, err := p.runSession(ctx)
		hangUp()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRemoved):
			return err
		case subscribed:
			wait = p.BackoffMin
		}
		// The jitter keeps the agents of a rack from coming back in step.
		pause := wait + rand.N(wait/2+1)
		p.Log.WithError(err).WithField("agent", p.AgentURL).WithField("retry_in", pause.String()).Warn("GPUs not advertised")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		wait = min(2*wait, p.BackoffMax)
	}
}
