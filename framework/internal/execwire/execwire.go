// Package execwire is the message protocol of a command in a container: messages on a
// WebSocket between the client and the scheduler.
package execwire

import (
	"context"
	"encoding/json"

	"github.com/coder/websocket"
)

// Channel is the first byte of each message of a session. All messages are binary.
// An empty message is a heartbeat.
type Channel byte

const (
	// StdinChannel carries input; a message without data is the end of input.
	StdinChannel Channel = iota
	StdoutChannel
	StderrChannel
	// ExitChannel carries the last message: {"exit": CODE}, or a Problem.
	ExitChannel
	// ResizeChannel carries a WindowSize.
	ResizeChannel
	// InputAckChannel carries an InputAck: how much more input the command has read.
	InputAckChannel
)

const (
	// MaxChunk limits the data of one message, without the first byte, in bytes.
	// ReadLimit is the message size that a receiver should accept.
	MaxChunk  = 32 << 10
	ReadLimit = 64<<10 + 1
	// InputWindow limits the input that is sent and not yet acknowledged, in bytes. A
	// client that exceeds it ends the session. The limit bounds the memory for a
	// command that does not read, and keeps input from blocking other messages.
	InputWindow = 256 << 10
)

// InputAck acknowledges input that the command has read, in bytes.
type InputAck struct {
	Bytes int `json:"bytes"`
}

// Stream is an io.Writer to a channel. Write blocks while the receiver is slow.
type Stream struct {
	ctx context.Context // stored, because io.Writer has no context parameter
	// conn is the websocket that all channels share.
	conn *websocket.Conn
	// buf is one message: the channel's number and data. Write reuses it.
	buf []byte
}

// NewStream returns a stream for use by one goroutine. If ctx ends during a Write,
// the connection breaks.
func NewStream(ctx context.Context, conn *websocket.Conn, to Channel) *Stream {
	return &Stream{ctx: ctx, conn: conn, buf: []byte{byte(to)}}
}

// Write implements io.Writer. An empty p sends a message without data.
func (s *Stream) Write(p []byte) (n int, err error) {
	for more := true; more; more = n < len(p) {
		part := p[n:min(len(p), n+MaxChunk)]
		s.buf = append(s.buf[:1], part...)
		if err := writeMessage(s.ctx, s.conn, s.buf); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// WriteMessage sends v as one JSON message.
func WriteMessage(ctx context.Context, conn *websocket.Conn, to Channel, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeMessage(ctx, conn, append([]byte{byte(to)}, text...))
}

// writeMessage returns an error if ctx has already ended, and then leaves the connection
// intact.
func writeMessage(ctx context.Context, conn *websocket.Conn, message []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageBinary, message)
}
