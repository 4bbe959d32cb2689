package execwire

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/coder/websocket"

	"mesos-gpu/internal/portrelay"
)

// Relay copies data between a WebSocket and a connection until both directions have ended or one has failed, and
// returns the failure. Data is in binary messages of at most MaxChunk bytes; an empty message is the end of a direction.
// The caller closes both.
func Relay(ctx context.Context, ws *websocket.Conn, conn portrelay.HalfCloser) error {
	ws.SetReadLimit(ReadLimit)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var copying sync.WaitGroup
	copying.Go(func() {
		if err := sendMessages(ctx, ws, conn); err != nil {
			cancel(err)
		}
	})
	copying.Go(func() {
		if err := receiveMessages(ctx, ws, conn); err != nil {
			cancel(err)
		}
	})
	copying.Wait()
	return context.Cause(ctx)
}

func sendMessages(ctx context.Context, ws *websocket.Conn, from io.Reader) error {
	buf := make([]byte, MaxChunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if err := ws.Write(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return ws.Write(ctx, websocket.MessageBinary, nil)
		}
		if err != nil {
			return err
		}
	}
}

func receiveMessages(ctx context.Context, ws *websocket.Conn, to portrelay.HalfCloser) error {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		if len(data) == 0 {
			return to.CloseWrite()
		}
		if _, err := to.Write(data); err != nil {
			return err
		}
	}
}
