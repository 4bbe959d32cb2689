package advertise

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/isolator/share"
)

// activeSession is a session whose provider the agent has accepted.
type activeSession struct {
	*resourceProvider
	// id is the provider id that the agent has accepted.
	id string
	// send posts a call with the id on the session's stream.
	send func(*rp.ProviderCall) error
	// inUse are the devices in use and how tasks hold them, as the agent's
	// operator API last reported. A failed query leaves it as it is.
	inUse map[string]share.DeviceUse
	// lastSent is the total that was last sent to the agent; nil before the
	// first. An update with an equal total is not sent.
	lastSent *advertisedTotal
}

// advertisedTotal is the content of UPDATE_STATE.
type advertisedTotal struct {
	// ids are the UUIDs of the devices that are advertised whole.
	ids []string
	// leftover counts devices that are in use and not offered any more. The
	// task with such a device holds one of the scalar gpus: without it in the
	// total, another device would lack its scalar. Shared devices have their
	// own scalars, so they never count.
	leftover int
	// shared are the devices that are advertised in shares.
	shared []gpu.DeviceShare
	// withheld are the devices that are not offered, with the reasons.
	withheld []gpu.WithheldDevice
	// waiting is set if a device will change its mode when it is idle.
	waiting bool
}

// serveSession sends the total to the agent at first and after each change,
// and answers its events until the stream ends.
func (p *resourceProvider) serveSession(ctx context.Context, s *providerStream, id string) error {
	ctx, stop := context.WithCancel(ctx)
	events, ended := make(chan *rp.ProviderEvent), make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() { ended <- readEvents(ctx, s, events) })
	context.AfterFunc(ctx, s.interrupt)
	defer reader.Wait()
	defer stop()

	t := &activeSession{resourceProvider: p, id: id, send: func(call *rp.ProviderCall) error {
		call.ResourceProviderID = providerIDMessage(id)
		return p.postCall(ctx, p.client, s.id, call)
	}}
	look := time.NewTicker(p.InUseInterval)
	defer look.Stop()
	var modeRequests <-chan struct{}
	if p.Modes != nil {
		modeRequests = p.Modes.Changes()
	}
	for err := t.updateState(ctx, true); ; {
		if err != nil {
			return err
		}
		select {
		case event := <-events:
			err = t.handleEvent(ctx, event)
		case <-p.hosts.changed:
			err = t.updateState(ctx, false)
		case <-modeRequests:
			err = t.updateState(ctx, false)
		case <-look.C:
			if t.lastSent.leftover > 0 || t.lastSent.waiting {
				err = t.updateState(ctx, false)
			}
		case err := <-ended:
			return err
		}
	}
}

// readEvents passes events on until the stream ends.
func readEvents(ctx context.Context, s *providerStream, events chan<- *rp.ProviderEvent) error {
	for {
		event, err := s.nextEvent(ctx, time.Time{})
		if err != nil {
			return err
		}
		select {
		case events <- event:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// updateState sends the total to the agent if it has changed, or if always is
// set. It sends nothing else, because the master rescinds offers at each
// UPDATE_STATE.
func (t *activeSession) updateState(ctx context.Context, always bool) error {
	now := t.computeTotal(ctx)
	if !always && now.equal(t.lastSent) {
		t.lastSent = now
		return nil
	}
	if err := t.send(t.updateStateCall(now)); err != nil {
		return err
	}
	t.lastSent = now
	t.Log.WithFields(logrus.Fields{
		"agent": t.AgentURL, "provider": t.id, "gpus": len(now.ids), "shared": len(now.shared), "withheld": len(now.withheld), "in_use_not_offered": now.leftover,
	}).Info("GPUs advertised")
	t.OnStatus(ProviderStatus{Whole: len(now.ids), Shared: len(now.shared)})
	return nil
}

// computeTotal returns the total for the latest state of the host.
func (t *activeSession) computeTotal(ctx context.Context) *advertisedTotal {
	held, err := t.readDevicesInUse(ctx, t.id)
	switch {
	case err == nil:
		t.inUse = held
	case !errors.Is(err, errAgentRefusesCaller) && ctx.Err() == nil: // errAgentRefusesCaller was logged before
		t.Log.WithError(err).WithField("agent", t.AgentURL).Warn("cannot read which GPUs are in use")
	}
	host := t.hosts.latestHost()
	now := &advertisedTotal{withheld: host.Withheld}
	shared := func(string) (gpu.DeviceShare, bool) { return gpu.DeviceShare{}, false }
	if t.Modes != nil {
		if err := t.Modes.ReconcileModes(t.inUse, err == nil); err != nil {
			t.Log.WithError(err).Error("GPUs keep their sharing mode")
		}
		shared, now.waiting = t.Modes.SharedCapacity, t.Modes.HasPending()
	}
	for _, d := range host.Devices {
		if all, ok := shared(d.UUID); ok {
			now.shared = append(now.shared, all)
		} else {
			now.ids = append(now.ids, d.UUID)
		}
	}
	for uuid, use := range t.inUse {
		if use.Whole && !slices.Contains(now.ids, uuid) {
			now.leftover++
		}
	}
	return now
}

func (t *advertisedTotal) equal(o *advertisedTotal) bool {
	return o != nil && t.leftover == o.leftover && slices.Equal(t.withheld, o.withheld) &&
		sameItems(t.ids, o.ids, strings.Compare) && sameItems(t.shared, o.shared, compareUUIDs)
}

func compareUUIDs(a, b gpu.DeviceShare) int { return strings.Compare(a.UUID, b.UUID) }

func sameItems[T comparable](a, b []T, order func(T, T) int) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), order), slices.SortedFunc(slices.Values(b), order))
}

// updateStateCall returns UPDATE_STATE with a new version, so that the agent
// drops launches for an older one, and without pending operations.
func (t *activeSession) updateStateCall(now *advertisedTotal) *rp.ProviderCall {
	return &rp.ProviderCall{Type: rp.CallUpdateState, UpdateState: &rp.UpdateState{
		Resources:           MachineGPUs{Role: t.Role, Shared: now.shared, Withheld: now.withheld}.buildResources(now.ids, len(now.ids)+now.leftover, t.id),
		ResourceVersionUUID: newUUID(),
	}}
}

// handleEvent answers one event.
func (t *activeSession) handleEvent(ctx context.Context, event *rp.ProviderEvent) error {
	switch {
	case event.Type == rp.EventTeardown:
		return errors.Join(ErrRemoved, t.resourceProvider.state.removeID())
	case event.Type == rp.EventPublishResources && event.PublishResources != nil:
		return t.send(t.publishResources(event.PublishResources))
	case event.Type == rp.EventApplyOperation && event.ApplyOperation != nil:
		// The provider does not track reservations of GPUs. The agent has
		// already applied the reservation: a new state reverts it.
		t.Log.WithField("operation", event.ApplyOperation.Info.Type.String()).Warn("operation on GPUs rejected")
		failed := operationStatusCall(t.id, event.ApplyOperation.OperationUUID, mesos.OPERATION_FAILED, "the GPUs' provider carries out no operations")
		failed.UpdateOperationStatus.FrameworkID = event.ApplyOperation.FrameworkID
		if err := t.send(failed); err != nil {
			return err
		}
		return t.updateState(ctx, true)
	case event.Type == rp.EventReconcileOperations && event.ReconcileOperations != nil:
		for _, unknown := range event.ReconcileOperations.OperationUUIDs {
			if err := t.send(operationStatusCall(t.id, unknown, mesos.OPERATION_DROPPED, "the GPUs' provider does not know the operation")); err != nil {
				return err
			}
		}
	}
	return nil // an acknowledgement, or an event of a newer Mesos
}
