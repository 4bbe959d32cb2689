package leader

import (
	"context"
	"errors"
)

// ErrAbdicated means that the leader gave up its leadership on request. Tasks continue.
var ErrAbdicated = errors.New("the leadership was given up on request")

// abdicate makes AwaitAbdication return. It may be called several times.
func (l *Leader) abdicate() { l.abdicateOnce.Do(func() { close(l.abdicated) }) }

// AwaitAbdication returns ErrAbdicated once a client has requested it, or nil if ctx ended.
func (l *Leader) AwaitAbdication(ctx context.Context) error {
	select {
	case <-l.abdicated:
		return ErrAbdicated
	case <-ctx.Done():
		return nil
	}
}
