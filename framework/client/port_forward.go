package client

import (
	"context"
	"net"
	"net/url"

	"github.com/coder/websocket"

	"mesos-gpu/framework/internal/execwire"
)

// ForwardPort connects conn to a port of a job's running task until both directions have ended or ctx ends, and closes
// it. port is the name or number of one of the job's ports, or "" for the first. A *Problem is an error of the
// scheduler, such as a task without the port.
func (c *Client) ForwardPort(ctx context.Context, name string, task int, port string, conn *net.TCPConn) error {
	defer conn.Close()
	ws, err := c.openPort(ctx, name, task, port)
	if err != nil {
		return err
	}
	defer func() { _ = ws.CloseNow() }()
	if err := execwire.Relay(ctx, ws, conn); err != nil {
		return err
	}
	_ = ws.Close(websocket.StatusNormalClosure, "")
	return nil
}

// ProbePort returns nil if a port of a job's running task accepts connections, and a *Problem
// with CodePortClosed if it does not.
func (c *Client) ProbePort(ctx context.Context, name string, task int, port string) error {
	ws, err := c.openPort(ctx, name, task, port)
	if err != nil {
		return err
	}
	return ws.CloseNow()
}

// openPort opens a WebSocket that carries the connection.
func (c *Client) openPort(ctx context.Context, name string, task int, port string) (*websocket.Conn, error) {
	x := &execSession{}
	err := x.openConnection(ctx, c, taskPath(name, task)+"/port-forward?"+url.Values{"port": {port}}.Encode())
	return x.conn, err
}
