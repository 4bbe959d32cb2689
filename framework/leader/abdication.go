package leader

import (
	"context"
	"errors"
)

// ErrAbdicated means that the leader gave up its leadership on request. Tasks continue.
var ErrAbdicated = errors.New("the leadership was given up on request")

// abdicate makes AwaitAbdication return. It may be called several times.
func (b *Leader) abdicate() { b.abdicateOnce.Do(func() { close(b.abdicated) }) }

// AwaitAbdication returns ErrAbdicated once a client has requested it, or nil if ctx ended.
func (b *Leader) AwaitAbdication(ctx context.Context) error {
	select {
	case <-b.abdicated:
		return ErrAbdicated
	case <-ctx.Done():
		return nil
	}
}
