package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/oci"
	"mesos-gpu/internal/mesosapi"
)

// sessionSpec returns the spec of a command that runs inside an executor's
// container or a nested one. The command uses the container's file system and
// process namespace, and inherits its environment and user unless it specifies
// others.
func (a *EmbeddedAgent) sessionSpec(l nestedLaunch) (s container.LaunchSpec, err error) {
	c := l.beside.command
	c.Rlimits = nil
	if len(l.command.GetURIs()) > 0 {
		return s, errors.New("a session has the sandbox that it runs in: leave out command.uris")
	}
	own, err := oci.CommandEnv(l.command)
	if err != nil {
		return s, err
	}
	if c.Args, err = oci.CommandArgs(l.command); err != nil {
		return s, err
	}
	switch who := l.command.GetUser(); {
	case who == "" || who == l.beside.user:
	case l.beside.image:
		return s, fmt.Errorf("user %s of a session in an image: this agent runs it as the image's container", who)
	default:
		if c.User, err = a.resolveUser(who); err != nil {
			return s, err
		}
	}
	c.Path, c.Env = c.Args[0], oci.MergeEnv(c.Env, own)
	s = container.LaunchSpec{ID: l.ids, Enter: l.beside.box, Command: c}
	return s, l.console.attachTo(&s)
}

// terminalOf returns the terminal that a session requests, or nil. A session may
// request nothing else, because it runs inside an existing container.
func terminalOf(info *mesos.ContainerInfo) (*mesos.TTYInfo, error) {
	if info == nil {
		return nil, nil
	}
	rest := *info
	rest.Type, rest.TTYInfo = nil, nil
	if !rest.Equal(&mesos.ContainerInfo{}) {
		return nil, errors.New("a session runs inside an existing container: remove its ContainerInfo except tty_info")
	}
	return info.TTYInfo, nil
}

// sessionParent returns the running container inside which a session runs.
func (a *EmbeddedAgent) sessionParent(ctx context.Context, id mesos.ContainerID) (*container.RunningContainer, error) {
	ids, err := containerPath(id)
	if err != nil {
		return nil, mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	return askLoop(ctx, a.loop, func() (*container.RunningContainer, error) {
		e, parent, err := a.parentOf(ids)
		switch {
		case err != nil:
			return nil, err
		case parent != nil:
			return parent.box, nil
		}
		return e.box, nil
	})
}

// serveSession launches a session and streams its output in the response. The
// session ends when the connection closes.
func (a *EmbeddedAgent) serveSession(w http.ResponseWriter, r *http.Request, call *agent.Call_LaunchNestedContainerSession) {
	if call == nil {
		mesosapi.WriteError(w, missingField("launch_nested_container_session"))
		return
	}
	stream, err := mesosapi.NewStream(r)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	tty, err := terminalOf(call.Container)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	box, err := a.sessionParent(r.Context(), call.ContainerID)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	c, err := openConsole(tty, box)
	if err != nil {
		mesosapi.WriteError(w, withStatus(err))
		return
	}
	defer c.close()
	status, err := a.launchCall(r.Context(), call.ContainerID, nestedLaunch{session: true, command: call.Command, console: c})
	c.closeCommandEnds()
	switch {
	case err != nil:
		mesosapi.WriteError(w, withStatus(err))
		return
	case status != http.StatusOK:
		w.WriteHeader(status) // the id belongs to another container
		return
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	if err := stream.ServeFrom(ctx, w, c.streamOutput(ctx)); err != nil {
		// The client has disconnected. The container may have ended as well.
		// Its input is closed after its end, or it would take the loss for the end
		// of the input.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostSessionTimeout)
		defer cancel()
		if a.killNested(ending, call.ContainerID, nil) == nil {
			_, _ = a.waitNested(ending, call.ContainerID)
		}
	}
}

// lostSessionTimeout bounds the wait for the end of a killed session.
const lostSessionTimeout = 10 * time.Second

// beatEvery is Mesos's own --http_heartbeat_interval.
const beatEvery = 30 * time.Second

// streamOutput returns the command's output and heartbeats as messages, until
// the output or ctx ends.
func (c *sessionConsole) streamOutput(ctx context.Context) <-chan proto.Message {
	messages := make(chan proto.Message)
	whileOutput, outputEnded := context.WithCancel(ctx)
	var copying, beating sync.WaitGroup
	copying.Go(func() { forwardOutput(ctx, c.stdout, agent.ProcessIO_Data_STDOUT, messages) })
	if c.stderr != nil {
		copying.Go(func() { forwardOutput(ctx, c.stderr, agent.ProcessIO_Data_STDERR, messages) })
	}
	beating.Go(func() { sendHeartbeat(whileOutput, messages) })
	go func() {
		copying.Wait()
		outputEnded()
		beating.Wait()
		close(messages)
	}()
	return messages
}

// sendHeartbeat sends heartbeats that keep the connection alive.
func sendHeartbeat(ctx context.Context, messages chan<- proto.Message) {
	every := time.NewTicker(beatEvery)
	defer every.Stop()
	m := &agent.ProcessIO{Type: agent.ProcessIO_CONTROL, Control: &agent.ProcessIO_Control{
		Type:      agent.ProcessIO_Control_HEARTBEAT,
		Heartbeat: &agent.ProcessIO_Control_Heartbeat{Interval: &mesos.DurationInfo{Nanoseconds: beatEvery.Nanoseconds()}},
	}}
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
		select {
		case messages <- m:
		case <-ctx.Done():
			return
		}
	}
}

// forwardOutput forwards the data of a pipe or terminal until end of file or
// until ctx ends.
func forwardOutput(ctx context.Context, from *os.File, kind agent.ProcessIO_Data_Type, messages chan<- proto.Message) {
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case messages <- &agent.ProcessIO{Type: agent.ProcessIO_DATA, Data: &agent.ProcessIO_Data{Type: kind, Data: buffer[:n]}}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return // a terminal whose other end is closed returns EIO
		}
	}
}
