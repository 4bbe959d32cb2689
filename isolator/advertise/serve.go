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

// talk is a session whose provider the agent has taken.
type talk struct {
	*provider
	id   string
	send func(*rp.Call) error
	// held are the devices in use, as the agent last told.
	held map[string]share.Use
	// told is what the agent was last told that there is, nil before.
	told *total
}

// total is what UPDATE_STATE says.
type total struct {
	ids []string
	// leftover counts devices that are not offered any more and still in use.
	// A task that holds one has taken one of the scalar: a scalar without it
	// would make one of the others useless. Shared devices have scalars of
	// their own: with those gone nothing is left over.
	leftover int
	// shared are the devices that are advertised in parts.
	shared []gpu.Part
	// withheld are those that are not offered, and why.
	withheld []gpu.Withheld
	// waiting tells that one is to change its form once it is idle.
	waiting bool
}

// serve tells the agent of the GPUs, at first and whenever that changes, and
// answers its events until the stream ends.
func (p *provider) serve(ctx context.Context, s *stream, id string) error {
	ctx, stop := context.WithCancel(ctx)
	events, ended := make(chan *rp.Event), make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() { ended <- read(ctx, s, events) })
	context.AfterFunc(ctx, s.interrupt)
	defer reader.Wait()
	defer stop()

	t := &talk{provider: p, id: id, send: func(call *rp.Call) error {
		call.ResourceProviderID = providerID(id)
		return p.post(ctx, p.client, s.id, call)
	}}
	look := time.NewTicker(p.LookEvery)
	defer look.Stop()
	var asked <-chan struct{}
	if p.Sharing != nil {
		asked = p.Sharing.Changed()
	}
	for err := t.update(ctx, true); ; {
		if err != nil {
			return err
		}
		select {
		case event := <-events:
			err = t.answer(ctx, event)
		case <-p.board.changed:
			err = t.update(ctx, false)
		case <-asked:
			err = t.update(ctx, false)
		case <-look.C:
			if t.told.leftover > 0 || t.told.waiting {
				err = t.update(ctx, false)
			}
		case err := <-ended:
			return err
		}
	}
}

// read passes events on until the stream ends.
func read(ctx context.Context, s *stream, events chan<- *rp.Event) error {
	for {
		event, err := s.next(ctx, time.Time{})
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

// update tells the agent what there is, unless it knows: the master rescinds
// offers at each new state. Always tells it again.
func (t *talk) update(ctx context.Context, always bool) error {
	now := t.total(ctx)
	if !always && now.equal(t.told) {
		t.told = now
		return nil
	}
	if err := t.send(t.state(now)); err != nil {
		return err
	}
	t.told = now
	t.Log.WithFields(logrus.Fields{
		"agent": t.AgentURL, "provider": t.id, "gpus": len(now.ids), "shared": len(now.shared), "withheld": len(now.withheld), "in_use_not_offered": now.leftover,
	}).Info("GPUs advertised")
	if t.Advertised != nil {
		t.Advertised()
	}
	return nil
}

// total is what the newest state of the host comes to.
func (t *talk) total(ctx context.Context) *total {
	held, err := t.inUse(ctx, t.id)
	switch {
	case err == nil:
		t.held = held
	case !errors.Is(err, errMute) && ctx.Err() == nil: // of a mute agent it was said
		t.Log.WithError(err).WithField("agent", t.AgentURL).Warn("cannot learn which GPUs are in use")
	}
	host := t.board.newest()
	now := &total{withheld: host.Withheld}
	shared := func(string) (gpu.Part, bool) { return gpu.Part{}, false }
	if t.Sharing != nil {
		if err := t.Sharing.Settle(t.held, err == nil); err != nil {
			t.Log.WithError(err).Error("GPUs keep their form")
		}
		shared, now.waiting = t.Sharing.Shared, t.Sharing.Waiting()
	}
	for _, d := range host.Devices {
		if all, ok := shared(d.UUID); ok {
			now.shared = append(now.shared, all)
		} else {
			now.ids = append(now.ids, d.UUID)
		}
	}
	for uuid, use := range t.held {
		if use.Whole && !slices.Contains(now.ids, uuid) {
			now.leftover++
		}
	}
	return now
}

func (n *total) equal(o *total) bool {
	return o != nil && n.leftover == o.leftover && slices.Equal(n.withheld, o.withheld) && sameItems(n.ids, o.ids, strings.Compare) && sameItems(n.shared, o.shared, byName)
}

func byName(a, b gpu.Part) int { return strings.Compare(a.UUID, b.UUID) }

func sameItems[T comparable](a, b []T, order func(T, T) int) bool {
	return slices.Equal(slices.SortedFunc(slices.Values(a), order), slices.SortedFunc(slices.Values(b), order))
}

// state is UPDATE_STATE: no pending operations, a new version, by which the
// agent drops launches that were meant for an older one.
func (t *talk) state(now *total) *rp.Call {
	return &rp.Call{Type: rp.CallUpdateState, UpdateState: &rp.UpdateState{
		Resources:           Machine{Role: t.Role, Shared: now.shared, Withheld: now.withheld}.resources(now.ids, len(now.ids)+now.leftover, t.id),
		ResourceVersionUUID: newUUID(),
	}}
}

// answer does what an event asks for.
func (t *talk) answer(ctx context.Context, event *rp.Event) error {
	switch {
	case event.Type == rp.EventTeardown:
		return errors.Join(ErrRemoved, t.provider.state.forget())
	case event.Type == rp.EventPublishResources && event.PublishResources != nil:
		return t.send(t.publish(event.PublishResources))
	case event.Type == rp.EventApplyOperation && event.ApplyOperation != nil:
		// Reserving the GPUs would need a ledger. The agent has applied the
		// reservation in advance: a new state takes it back.
		t.Log.WithField("operation", event.ApplyOperation.Info.Type.String()).Warn("operation on GPUs refused")
		failed := operation(t.id, event.ApplyOperation.OperationUUID, mesos.OPERATION_FAILED, "the GPUs' provider carries out no operations")
		failed.UpdateOperationStatus.FrameworkID = event.ApplyOperation.FrameworkID
		if err := t.send(failed); err != nil {
			return err
		}
		return t.update(ctx, true)
	case event.Type == rp.EventReconcileOperations && event.ReconcileOperations != nil:
		for _, unknown := range event.ReconcileOperations.OperationUUIDs {
			if err := t.send(operation(t.id, unknown, mesos.OPERATION_DROPPED, "the GPUs' provider does not know the operation")); err != nil {
				return err
			}
		}
	}
	return nil // an acknowledgement, or news of a later Mesos
}
