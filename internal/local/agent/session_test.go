package agent

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpagent"

	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// session runs a command in a nested container, as mesos-go's clients do, and
// passes on each piece of its output.
func (r *rig) session(ctx context.Context, id mesos.ContainerID, command *mesos.CommandInfo, hear func(kind agent.ProcessIO_Data_Type, text string)) error {
	return r.sessionOf(ctx, calls.LaunchNestedContainerSession(id, command, nil), hear)
}

func (r *rig) sessionOf(ctx context.Context, call *agent.Call, hear func(kind agent.ProcessIO_Data_Type, text string)) error {
	client := httpcli.New(
		httpcli.Endpoint("http://"+r.agent.cfg.Addr+"/slave(1)/api/v1"), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]),
		httpcli.Do(httpcli.With(httpcli.Timeout(time.Minute))),
	)
	resp, err := httpagent.NewSender(client.Send).Send(ctx, calls.NonStreaming(call))
	if resp != nil {
		defer resp.Close()
	}
	if err != nil {
		return err
	}
	for {
		var m agent.ProcessIO
		switch err := resp.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if m.Data != nil { // no heartbeat
			hear(m.Data.Type, string(m.Data.Data))
		}
	}
}

// ran is a session that has ended: its output and its error.
func (r *rig) ran(id mesos.ContainerID, command *mesos.CommandInfo) (stdout, stderr string, ws syscall.WaitStatus) {
	r.t.Helper()
	err := r.session(r.t.Context(), id, command, func(kind agent.ProcessIO_Data_Type, text string) {
		if kind == agent.ProcessIO_Data_STDERR {
			stderr += text
			return
		}
		stdout += text
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if ws, err = r.waitNested(id); err != nil {
		r.t.Fatal(err)
	}
	return stdout, stderr, ws
}

func shell(script string) *mesos.CommandInfo { return &mesos.CommandInfo{Value: &script} }

func withVariable(c *mesos.CommandInfo, name, value string) *mesos.CommandInfo {
	c.Environment = &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: name, Value: &value}}}
	return c
}

// A session has its container's environment and working directory and, with
// isolation, its process namespace.
func TestSession(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		n := below(r.parent(), "n")
		if err := r.nest(n, withVariable(shell("exec sleep 1000"), "OF", "task"), nil); err != nil {
			t.Fatal(err)
		}
		out, bad, ws := r.ran(below(n, "s"), withVariable(shell(`echo "$OF $MINE"; pwd; echo bad >&2; exit 5`), "MINE", "own"))
		dir := filepath.Join(r.agent.cfg.WorkDir, "tasks", "ex")
		if want := "task own\n" + dir + "\n"; out != want || bad != "bad\n" || ws.ExitStatus() != 5 {
			t.Errorf("wrote %q and %q, ended with %#x; want %q, bad and 5", out, bad, int(ws), want)
		}
		if _, err := r.call(calls.RemoveNestedContainer(below(n, "s"))); err != nil {
			t.Error(err)
		}
		if !root {
			return
		}
		const inside = `test -e /proc/1 && ls -d /proc/[0-9]* | wc -l; ls /dev | grep -c .; for p in /proc/[0-9]*; do cat $p/comm; done`
		out, bad, _ = r.ran(below(n, "ps"), shell(inside))
		_, task := r.nestAndWait(below(r.parent(), "other"), shell("ls /dev | grep -c ."), nil)
		if lines := strings.Split(out, "\n"); len(lines) > 9 || lines[1]+"\n" != task || !strings.Contains(out, "sleep\n") {
			t.Errorf("it sees the processes and so many devices\n%s%swant the container's, and devices %s", out, bad, task)
		}
	})
}

// When the client closes the connection, the session and all its processes end.
func TestSessionEndsWithConnection(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		n := below(r.parent(), "n")
		if err := r.nest(n, argv("sleep", "1000"), nil); err != nil {
			t.Fatal(err)
		}
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		err := r.session(ctx, below(n, "s"), shell("sleep 1000 & echo there; sleep 1000"), func(agent.ProcessIO_Data_Type, string) { hangUp() })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("session ended with %v", err)
		}
		if ws, err := r.waitNested(below(n, "s")); err != nil || ws.Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %#x (%v), want SIGKILL", int(ws), err)
		}
	})
}

// A session in an image has its files, its user and no more rights than its
// first process.
func TestSessionInAnImage(t *testing.T) {
	testneeds.RequireProgram(t, "runc", "runc")
	archive := testimage.BusyboxArchive(t, "app:1", nil, []string{"FROM_IMAGE=1"})
	r := gpuRig(t, func(c *AgentConfig) { c.ImagesDir = filepath.Dir(archive) })
	p := r.parent(resource.NewScalar("gpus", 1), gpuIDs("GPU-b"))
	n := below(p, "n")
	if err := r.nest(n,
		withVariable(shell(`ls -l /proc/self/ns | grep -oE "(mnt|ipc|pid):.*" > /only-here; exec sleep 1000`), "OF", "task"),
		imageInfo("app:1")); err != nil {
		t.Fatal(err)
	}
	const status = "grep -E '^(Cap(Eff|Bnd)|NoNewPrivs|Uid)' /proc/self/status; "
	const script = `until [ -s /only-here ]; do :; done; ls -l /proc/self/ns | grep -oE "(mnt|ipc|pid):.*" | cmp - /only-here; echo $FROM_IMAGE $OF $MINE; pwd; ` +
		status + tryGPUs
	out, bad, ws := r.ran(below(n, "s"), withVariable(shell(script), "MINE", "own"))
	if ws.ExitStatus() != 0 && ws.ExitStatus() != 1 || !strings.HasPrefix(out, "1 task own\n/mnt/mesos/sandbox\n") {
		t.Errorf("ended with %#x, wrote %q and %q", int(ws), out, bad)
	}
	// The first process prints its own capabilities.
	_, first := r.nestAndWait(below(p, "first"), shell(status), imageInfo("app:1"))
	if !strings.Contains(out, first) || strings.Count(first, "\n") != 4 {
		t.Errorf("the session's rights are not the first process's\n%sin\n%s", first, out)
	}
	for _, want := range []string{granted, denied} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestSessionErrors(t *testing.T) {
	r := newRig(t, false, nil)
	p := r.parent()
	n := below(p, "n")
	if err := r.nest(n, argv("sleep", "1000"), nil); err != nil {
		t.Fatal(err)
	}
	nothing := func(agent.ProcessIO_Data_Type, string) {}
	wantStatus(t, "without a parent", r.session(t.Context(), below(below(p, "none"), "s"), shell("true"), nothing), 400, "does not run")
	wantStatus(t, "no program", r.session(t.Context(), below(n, "s"), argv("no-such-program"), nothing), 400, "no-such-program")
	if _, err := r.call(calls.RemoveNestedContainer(below(n, "s"))); err == nil {
		t.Error("what never ran was there to be removed")
	}
}
