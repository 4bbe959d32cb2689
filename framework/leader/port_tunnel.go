package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/execwire"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/portrelay"
)

// tunnelIdleTime is the idle time of tunnels to tasks. A tunnel takes a round trip to the agent and a process in the
// task's container to start, and a page in a browser opens many short connections.
const tunnelIdleTime = 30 * time.Second

// tunnelTable has the tunnels to tasks to whose ports clients are connected, by task ID.
// One tunnel, a command in the container of the task's executor, has all connections.
type tunnelTable struct {
	// run runs the command of a relay to its end.
	run func(context.Context, master.ExecCommand, master.ExecStreams) (int, error)
	// idleTime is how long a tunnel stays open without connections.
	idleTime time.Duration
	// mu protects tunnels, and connections and stop of each tunnel.
	mu sync.Mutex
	// tunnels lists the tunnels that new connections may use. A tunnel leaves when it ends or is about to be closed.
	tunnels map[string]*taskTunnel
}

// taskTunnel is the tunnel to one task.
type taskTunnel struct {
	*portrelay.Tunnel
	// id is the task's ID, the tunnel's key in the table.
	id string
	// connections counts the open ones. stop ends the tunnel when there were none for
	// the idle time; it runs only while connections is 0. The table's mutex guards both.
	connections int
	stop        *time.Timer
	// ended is closed when the relay has ended. err, which is set before and never nil then, is the reason.
	ended chan struct{}
	err   error
}

// OpenPort connects to a port of a running task, through its agent. port is as of
// job.Spec.ConnectAddresses. The caller closes the connection. If the tunnel breaks before the connection is open, the
// error is why the relay ended, for example that the task's executor is too old to know the command.
func (s *TaskStreams) OpenPort(ctx context.Context, name string, index int, port string) (portrelay.HalfCloser, error) {
	command, err := execCommand(s.leader.Model, name, index, &api.ExecRequest{})
	if err != nil {
		return nil, err
	}
	j, ok := s.leader.Model.CopyJob(name)
	if !ok {
		return nil, api.UnknownJob(name)
	}
	addresses, err := j.Spec.ConnectAddresses(&j.Tasks[index], port)
	if err != nil {
		return nil, api.NewProblemf(http.StatusConflict, "%v", err)
	}
	command.Relay = true
	t, err := s.tunnels.acquire(command)
	if err != nil {
		return nil, err
	}
	conn, err := t.Dial(ctx, addresses)
	if err == nil {
		return &portConnection{conn, sync.OnceFunc(func() { s.tunnels.release(t) })}, nil
	}
	s.tunnels.release(t)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, portrelay.ErrRefused):
		return nil, api.NewProblemf(http.StatusConflict, "task %s accepts no connections on its port: %v", command.ExecutorID, err).WithCode(api.CodePortClosed,
			command.ExecutorID)
	}
	_ = t.Close()
	select {
	case <-t.ended:
		return nil, t.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// portConnection is a connection to a task's port. Closing it releases the tunnel, the first time.
type portConnection struct {
	portrelay.Conn
	release func()
}

func (c *portConnection) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// acquire returns the tunnel to a task, with one connection more. The caller releases it.
func (tt *tunnelTable) acquire(command master.ExecCommand) (*taskTunnel, error) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	t := tt.tunnels[command.ExecutorID]
	if t == nil {
		var err error
		if t, err = tt.start(command); err != nil {
			return nil, err
		}
	}
	if t.connections >= portrelay.MaxConnections {
		return nil, api.NewProblemf(http.StatusTooManyRequests,
			"task %s has %d connections through this scheduler, at most %d are possible", command.ExecutorID,
			t.connections, portrelay.MaxConnections).WithCode(api.CodeTooManySessions, command.ExecutorID)
	}
	t.connections++
	t.stop.Stop()
	return t, nil
}

// release removes a connection from a tunnel. The tunnel may have left the table.
func (tt *tunnelTable) release(t *taskTunnel) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if t.connections--; t.connections == 0 {
		t.stop.Reset(tt.idleTime)
	}
}

// start adds a tunnel to a task and starts its relay. The caller has the mutex. Three events end a tunnel: its closing,
// the end of the relay, and a broken stream. Each of them leads to the two others, and the tunnel leaves the table.
func (tt *tunnelTable) start(command master.ExecCommand) (*taskTunnel, error) {
	input, toRelay := io.Pipe()
	fromRelay, output := io.Pipe()
	tunnel, err := portrelay.OpenTunnel(pipeStream{fromRelay, toRelay})
	if err != nil {
		return nil, err
	}
	t := &taskTunnel{Tunnel: tunnel, id: command.ExecutorID, ended: make(chan struct{})}
	t.stop = time.AfterFunc(tt.idleTime, func() { tt.closeIdle(t) })
	if tt.tunnels == nil {
		tt.tunnels = map[string]*taskTunnel{}
	}
	tt.tunnels[command.ExecutorID] = t
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() { _ = tunnel.Close() })
	go func() {
		<-tunnel.Done()
		cancel()
		tt.remove(t)
	}()
	go func() {
		defer cancel()
		defer close(t.ended)
		messages := &execwire.CommandMessages{Limit: maxMessages}
		code, err := tt.run(ctx, command, master.ExecStreams{Stdin: input, Stdout: output, Stderr: messages})
		_, _ = input.Close(), output.Close()
		if t.err = err; err == nil || errors.Is(err, context.Canceled) {
			t.err = api.NewProblemf(http.StatusBadGateway, "task %s: its agent ended the connection%s", command.ExecutorID, describeEnd(messages.String(), code))
		}
	}()
	return t, nil
}

// closeIdle ends a tunnel that has no connections.
func (tt *tunnelTable) closeIdle(t *taskTunnel) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	if t.connections == 0 {
		tt.forget(t)
		go t.Close() // outside of the lock, because it waits for the streams
	}
}

// remove removes a tunnel that has ended.
func (tt *tunnelTable) remove(t *taskTunnel) {
	tt.mu.Lock()
	defer tt.mu.Unlock()
	t.stop.Stop()
	tt.forget(t)
}

// forget removes a tunnel from the table, unless a later one to the same task has replaced it. The caller has the mutex.
func (tt *tunnelTable) forget(t *taskTunnel) {
	if tt.tunnels[t.id] == t {
		delete(tt.tunnels, t.id)
	}
}

// pipeStream is both directions of a relay's standard streams.
type pipeStream struct {
	*io.PipeReader
	to *io.PipeWriter
}

func (s pipeStream) Write(p []byte) (int, error) { return s.to.Write(p) }

func (s pipeStream) Close() error { return errors.Join(s.PipeReader.Close(), s.to.Close()) }

// maxMessages limits what is kept of a relay's standard error, in bytes.
const maxMessages = 1 << 10

// describeEnd returns the reason of a relay's end, for a message.
func describeEnd(messages string, code int) string {
	switch {
	case messages != "":
		return ": " + messages
	case code != 0:
		return fmt.Sprintf(": exit code %d", code)
	}
	return ""
}
