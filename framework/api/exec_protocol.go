package api

import (
	"context"
	"encoding/json"

	"github.com/coder/websocket"
)

// ExecChannel is the first byte of each message about a command, all of which are
// binary. An empty message says that its sender is there.
type ExecChannel byte

const (
	// StdinChannel takes input; an empty message is its end.
	StdinChannel ExecChannel = iota
	StdoutChannel
	StderrChannel
	// ExitChannel has the last message: {"exit": CODE}, or a Problem.
	ExitChannel
	// ResizeChannel takes a Size.
	ResizeChannel
	// InputAckChannel says how much more of the input the command has read: see
	// ExecInputAck.
	InputAckChannel
)

const (
	// ExecChunk is the most that a message holds after its first byte; ExecReadLimit
	// is what a reader should allow.
	ExecChunk     = 32 << 10
	ExecReadLimit = 64<<10 + 1
	// ExecWindow is how much input may be on its way: sent, and not yet taken.
	// More ends the session, so that a command that reads nothing fills no
	// memory, and its reader can wait for other messages meanwhile.
	ExecWindow = 256 << 10
)

// ExecInputAck is a message on InputAckChannel.
type ExecInputAck struct {
	Bytes int `json:"bytes"`
}

// ExecStream writes to a channel, as fast as the other end reads.
type ExecStream struct {
	ctx  context.Context // a writer's methods take none
	conn *websocket.Conn
	buf  []byte
}

// NewExecStream is good for one goroutine, until ctx ends, which breaks the
// connection where it is being written to.
func NewExecStream(ctx context.Context, conn *websocket.Conn, to ExecChannel) *ExecStream {
	return &ExecStream{ctx: ctx, conn: conn, buf: []byte{byte(to)}}
}

// Write implements io.Writer. Of nothing it makes a message, too.
func (s *ExecStream) Write(p []byte) (n int, err error) {
	for more := true; more; more = n < len(p) {
		part := p[n:min(len(p), n+ExecChunk)]
		s.buf = append(s.buf[:1], part...)
		if err := writeMessage(s.ctx, s.conn, s.buf); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// WriteExecMessage writes one message of JSON.
func WriteExecMessage(ctx context.Context, conn *websocket.Conn, to ExecChannel, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeMessage(ctx, conn, append([]byte{byte(to)}, text...))
}

// writeMessage leaves a connection whole that is not being written to when ctx ends.
func writeMessage(ctx context.Context, conn *websocket.Conn, message []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageBinary, message)
}
