package api

import (
	"context"
	"encoding/json"

	"github.com/coder/websocket"
)

// Channel is the first byte of each message about a command, all of which are
// binary. An empty message says that its sender is there.
type Channel byte

const (
	// StdinChannel takes input; an empty message is its end.
	StdinChannel Channel = iota
	StdoutChannel
	StderrChannel
	// EndChannel has the last message: {"exit": CODE}, or a Problem.
	EndChannel
	// ResizeChannel takes a Size.
	ResizeChannel
	// TakenChannel says how much more of the input the command has read: see
	// ExecTaken.
	TakenChannel
)

const (
	// ExecChunk is the most that a message holds after its first byte; ExecLimit
	// is what a reader should allow.
	ExecChunk = 32 << 10
	ExecLimit = 64<<10 + 1
	// ExecWindow is how much input may be on its way: sent, and not yet taken.
	// More ends the session, so that a command that reads nothing fills no
	// memory, and its reader can wait for other messages meanwhile.
	ExecWindow = 256 << 10
)

// ExecTaken is a message on TakenChannel.
type ExecTaken struct {
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
func NewExecStream(ctx context.Context, conn *websocket.Conn, to Channel) *ExecStream {
	return &ExecStream{ctx: ctx, conn: conn, buf: []byte{byte(to)}}
}

// Write implements io.Writer. Of nothing it makes a message, too.
func (s *ExecStream) Write(p []byte) (n int, err error) {
	for more := true; more; more = n < len(p) {
		part := p[n:min(len(p), n+ExecChunk)]
		s.buf = append(s.buf[:1], part...)
		if err := write(s.ctx, s.conn, s.buf); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// SendExec writes one message of JSON.
func SendExec(ctx context.Context, conn *websocket.Conn, to Channel, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return write(ctx, conn, append([]byte{byte(to)}, text...))
}

// write leaves a connection whole that is not being written to when ctx ends.
func write(ctx context.Context, conn *websocket.Conn, message []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return conn.Write(ctx, websocket.MessageBinary, message)
}
