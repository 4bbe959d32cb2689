package agent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/oci"
	"mesos-gpu/internal/wire"
)

// nestSession runs a command beside a nested container: in its file system,
// among its processes, with its environment and as its user, unless the
// command names others.
func (a *Agent) nestSession(ctx context.Context, l nestedLaunch) (*container.Container, container.Command, error) {
	c := l.beside.command
	c.Rlimits = nil
	own, err := oci.Variables(l.command)
	if err != nil {
		return nil, c, err
	}
	if c.Args, err = oci.Argv(l.command); err != nil {
		return nil, c, err
	}
	switch who := l.command.GetUser(); {
	case who != "" && l.beside.image:
		return nil, c, fmt.Errorf("user %s of a session in an image: this agent runs it as the image's container", who)
	case who != "":
		if c.User, err = a.user(who); err != nil {
			return nil, c, err
		}
	}
	c.Path, c.Env = c.Args[0], oci.Merge(c.Env, own)
	box, err := a.engine.Launch(ctx, container.Spec{ID: l.ids, Enter: l.beside.box, Stdout: l.output.stdout, Stderr: l.output.stderr, Command: c})
	return box, c, err
}

// serveSession launches a session and answers with what it writes. It ends
// with the connection.
func (a *Agent) serveSession(w http.ResponseWriter, r *http.Request, call *agent.Call_LaunchNestedContainerSession) {
	if call == nil {
		wire.WriteError(w, missing("launch_nested_container_session"))
		return
	}
	stream, err := wire.NewStream(r)
	if err != nil {
		wire.WriteError(w, err)
		return
	}
	in, out, err := openPipes()
	if err != nil {
		wire.WriteError(w, statused(err))
		return
	}
	defer in.close()
	_, status, err := a.launchCall(r.Context(), call.ContainerID, nestedLaunch{session: true, command: call.Command, info: call.Container, output: out})
	out.close()
	switch {
	case err != nil:
		wire.WriteError(w, statused(err))
		return
	case status != http.StatusOK:
		w.WriteHeader(status) // it is there already, and somebody else's
		return
	}
	messages := make(chan proto.Message)
	ctx, stop := context.WithCancel(r.Context())
	var copying sync.WaitGroup
	copying.Go(func() { send(ctx, in.stdout, agent.ProcessIO_Data_STDOUT, messages) })
	copying.Go(func() { send(ctx, in.stderr, agent.ProcessIO_Data_STDERR, messages) })
	go func() { copying.Wait(); close(messages) }()
	if err := stream.ServeFrom(ctx, w, messages); err != nil {
		// The client has gone; the container may be gone already, too.
		_, _, _ = a.killCall(context.WithoutCancel(ctx), call.ContainerID, nil)
	}
	stop()
}

// openPipes makes what takes a session's output; out is its end.
func openPipes() (in, out output, err error) {
	if in.stdout, out.stdout, err = os.Pipe(); err != nil {
		return in, out, fmt.Errorf("open output pipe: %w", err)
	}
	if in.stderr, out.stderr, err = os.Pipe(); err != nil {
		in.close()
		out.close()
		return in, out, fmt.Errorf("open output pipe: %w", err)
	}
	return in, out, nil
}

// send hands on what comes out of a pipe, until its end or ctx's.
func send(ctx context.Context, pipe *os.File, kind agent.ProcessIO_Data_Type, messages chan<- proto.Message) {
	for {
		buffer := make([]byte, 16<<10)
		n, err := pipe.Read(buffer)
		if n > 0 {
			select {
			case messages <- &agent.ProcessIO{Type: agent.ProcessIO_DATA, Data: &agent.ProcessIO_Data{Type: kind, Data: buffer[:n]}}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
