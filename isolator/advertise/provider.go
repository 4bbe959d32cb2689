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

// The agent stores type and name with the provider's id. It silently drops a
// provider that comes back with different ones, so they must never change.
const (
	providerType = "io.mesos.gpu"
	providerName = "gpus"
)

// ErrRemoved is returned by Run if the agent's operator has removed the
// provider. Its GPUs stay out of the offers until the daemon is restarted.
var ErrRemoved = errors.New("the agent removed this resource provider")

// ProviderConfig is the agent to subscribe with and the GPUs to advertise.
type ProviderConfig struct {
	// AgentURL is the agent's URL, "http://host:5051/slave(1)".
	AgentURL string
	// StateDir has the lock file and the provider id.
	StateDir string
	// Host is the initial state: each device in it is advertised by its name.
	// HostUpdates, if set, sends later states. A failed device is not among a
	// state's devices; if it is in Withheld, it is reported to the agent as
	// withheld. Run receives each state at once, whatever the agent does, and
	// uses the latest. Closing the channel means no more updates.
	Host        gpu.Host
	HostUpdates <-chan gpu.Host
	// Role is as in MachineGPUs.
	Role string
	// Modes, if set, decides which devices are advertised in shares.
	Modes SharingModes
	Log   logrus.FieldLogger

	// OnStatus, if set, is called each time the agent has accepted the GPUs,
	// and each time a session has failed. It must not block.
	OnStatus func(ProviderStatus)

	// Authorization is the header for an agent that requires authentication.
	Authorization string
	// TLS is used for an https URL; nil means the system's certificates.
	TLS *tls.Config

	// BackoffMin and BackoffMax bound the pause before a reconnect; the
	// defaults are 1 s and 30 s. AnswerTimeout (30 s) bounds the wait for an
	// answer. After closeTimeout (10 s) a
	// warning is logged about an agent that has not closed its side, and the
	// end of Run does not wait longer. InUseInterval (5 s) is how often the
	// agent is queried whether withdrawn devices are still in use.
	BackoffMin, BackoffMax, AnswerTimeout, closeTimeout, InUseInterval time.Duration
}

// askTimeout bounds an operator call.
const askTimeout = 2 * time.Second

// ProviderStatus describes the GPUs that the agent offers.
type ProviderStatus struct {
	// Whole and Shared are the numbers of devices that are offered whole and
	// in shares.
	Whole, Shared int
	// Err is why none is offered; nil if the agent has accepted the GPUs.
	Err error
}

// SharingModes decides how each device is advertised: whole or in shares.
// share.ModeStore implements it.
type SharingModes interface {
	// ReconcileModes updates the modes from how tasks hold the devices, if
	// that is known. It may change the mode of idle devices. On an error
	// nothing changes.
	ReconcileModes(held map[string]share.DeviceUse, known bool) error
	// SharedCapacity returns how much of a device is advertised in shares; ok
	// is false for a whole device.
	SharedCapacity(uuid string) (all gpu.DeviceShare, ok bool)
	// HasPending reports whether a device will change its mode when it is
	// idle. Changes has a token after a new request.
	HasPending() bool
	Changes() <-chan struct{}
}

func (c ProviderConfig) withDefaults() (ProviderConfig, error) {
	u, err := url.Parse(c.AgentURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return c, fmt.Errorf("agent URL %q is invalid; want for example http://127.0.0.1:5051/slave(1)", c.AgentURL)
	}
	if c.StateDir == "" {
		return c, errors.New("no state folder given: the provider id must outlive the daemon")
	}
	if c.Log == nil {
		return c, errors.New("no log given")
	}
	if c.OnStatus == nil {
		c.OnStatus = func(ProviderStatus) {}
	}
	for value, fallback := range map[*time.Duration]time.Duration{
		&c.BackoffMin: time.Second, &c.BackoffMax: 30 * time.Second,
		&c.AnswerTimeout: 30 * time.Second, &c.closeTimeout: 10 * time.Second,
		&c.InUseInterval: 5 * time.Second,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	return c, nil
}

// resourceProvider is the state of a running Run. One goroutine owns it.
type resourceProvider struct {
	ProviderConfig
	// state is the locked file with the provider id that the agent assigned.
	state *providerState
	// client sends all calls except SUBSCRIBE, which has its own connection.
	client *http.Client
	// hosts has the latest state of the host, which the next update sends.
	hosts *hostState
	// publishedDevices are the devices in use, as the agent last reported with
	// PUBLISH_RESOURCES. It is nil before the first report, and after the agent
	// has changed its id.
	publishedDevices map[string]bool
	// warned is set when it was logged that the agent does not let this program
	// read the agent's id. That is logged once.
	warned bool
}

// Run advertises GPUs until ctx ends. If the agent disconnects, Run subscribes
// again with the latest state. It has one connection at a time: it connects
// again only after both sides have closed the old one. When it returns, the
// GPUs are out of the offers; tasks that hold some keep running.
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

// runSessions runs one session after the other.
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
		// The jitter keeps the agents of a rack from reconnecting at the same
		// moment.
		pause := wait + rand.N(wait/2+1)
		p.Log.WithError(err).WithField("agent", p.AgentURL).WithField("retry_in", pause.String()).Warn("GPUs not advertised")
		p.OnStatus(ProviderStatus{Err: err})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		wait = min(2*wait, p.BackoffMax)
	}
}
