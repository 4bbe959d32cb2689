package unified

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/encoding"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"

	"mesos-gpu/executor/task"
)

// fakeSessions is an agent that runs checks and records the calls.
type fakeSessions struct {
	refuse error // error of the launch
	broken error // error at the end of the output
	hang   bool  // the output hangs until the connection is closed
	waited *agent.Response_WaitNestedContainer
	ended  bool // the task has ended, with its check
	calls  []string
	launch *agent.Call_LaunchNestedContainerSession
}

func (s *fakeSessions) Send(ctx context.Context, r calls.Request) (mesos.Response, error) {
	call := r.Call()
	s.calls = append(s.calls, strings.TrimSuffix(call.GetType().String(), "_NESTED_CONTAINER"))
	switch call.GetType() {
	case agent.Call_LAUNCH_NESTED_CONTAINER_SESSION:
		s.launch = call.LaunchNestedContainerSession
		if s.refuse != nil {
			return nil, s.refuse
		}
		return s.output(ctx), nil
	case agent.Call_WAIT_NESTED_CONTAINER:
		if s.waited == nil {
			return nil, errors.New("connection refused")
		}
		return &httpcli.Response{Closer: io.NopCloser(nil), Decoder: encoding.DecoderFunc(func(u encoding.Unmarshaler) error {
			u.(*agent.Response).WaitNestedContainer = s.waited
			return nil
		})}, nil
	}
	return nil, nil
}

// output returns the output in pieces, followed by the end of the stream.
func (s *fakeSessions) output(ctx context.Context) mesos.Response {
	pieces := 1
	return &httpcli.Response{Closer: io.NopCloser(nil), Decoder: encoding.DecoderFunc(func(u encoding.Unmarshaler) error {
		switch pieces--; {
		case pieces == 0:
			u.(*agent.ProcessIO).Type = agent.ProcessIO_DATA
			return nil
		case s.hang:
			<-ctx.Done()
			return ctx.Err()
		case s.broken != nil:
			return s.broken
		}
		return io.EOF
	})}
}

func TestExecProbe(t *testing.T) {
	status := func(n int32) *agent.Response_WaitNestedContainer {
		return &agent.Response_WaitNestedContainer{ExitStatus: &n}
	}
	const whole = "LAUNCH_NESTED_CONTAINER_SESSION WAIT REMOVE"
	tests := []struct {
		name  string
		agent fakeSessions
		code  int
		// err is the text of the expected error; asked means that the probe reached the
		// task.
		err   string
		asked bool
		calls string
	}{
		{"exit status", fakeSessions{waited: status(3 << 8)}, 3, "", true, whole},
		{"signal of its own", fakeSessions{waited: status(int32(syscall.SIGSEGV))}, 0, "SIGSEGV", true, whole},
		{"killed with its task", fakeSessions{ended: true, waited: status(int32(syscall.SIGKILL))}, 0, "killed the check", false, whole},
		{"killed alone", fakeSessions{waited: status(int32(syscall.SIGKILL))}, 0, "SIGKILL", true, whole},
		{"no status", fakeSessions{waited: &agent.Response_WaitNestedContainer{}}, 0, "without an exit status", true, whole},
		{"too slow", fakeSessions{hang: true, waited: status(int32(syscall.SIGKILL))}, 0, "did not end in time", true, whole},
		{"agent leaves", fakeSessions{broken: io.ErrUnexpectedEOF, waited: status(0)}, 0, "unexpected EOF", false, whole},
		{"agent is away afterwards", fakeSessions{}, 0, "connection refused", false, whole},
		{"agent is away", fakeSessions{refuse: errors.New("connection refused")}, 0, "connection refused", false, "LAUNCH_NESTED_CONTAINER_SESSION"},
		{"agent refuses", fakeSessions{refuse: apierrors.Code(http.StatusBadRequest).Error("parent is gone")}, 0,
			"parent is gone", false, "LAUNCH_NESTED_CONTAINER_SESSION"},
		{"agent forbids", fakeSessions{refuse: apierrors.CodeUnsubscribed.Error("")}, 0,
			"let executors use the agent's operator API", true, "LAUNCH_NESTED_CONTAINER_SESSION"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				user := "daemon"
				r := &nestedContainer{agent: &tt.agent, id: mesos.ContainerID{Value: "task"}, user: &user, log: quiet(t), ended: make(chan struct{}), output: endedWatch()}
				if tt.agent.ended {
					time.AfterFunc(time.Second, func() { close(r.ended) })
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				code, err := r.ExecProbe(ctx, []string{"/bin/check", "-x"}, map[string]string{"B": "2", "A": "1"})
				if code != tt.code || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %d and %v, want %d and %q", code, err, tt.code, tt.err)
				}
				if asked := !errors.Is(err, task.ErrNotReached); asked != tt.asked {
					t.Errorf("error %v reports an answer of the task: %v", err, asked)
				}
				if got := strings.Join(tt.agent.calls, " "); got != tt.calls {
					t.Errorf("calls %s, want %s", got, tt.calls)
				}
				l := tt.agent.launch
				if l.ContainerID.Parent.Value != "task" || l.Container != nil || l.Command.GetShell() ||
					l.Command.GetUser() != "daemon" || l.Command.GetValue() != "/bin/check" {
					t.Errorf("launched %v", l)
				}
				if diff := cmp.Diff([]string{"/bin/check", "-x"}, l.Command.Arguments); diff != "" {
					t.Errorf("arguments (-want +got):\n%s", diff)
				}
				if v := l.Command.Environment.Variables; len(v) != 2 || v[0].Name != "A" || *v[1].Value != "2" {
					t.Errorf("environment %v", v)
				}
			})
		})
	}
}

// A task with a network of its own does not share its executor's address.
func TestProbeAddress(t *testing.T) {
	if got := (&nestedContainer{}).ProbeAddress(); got != "127.0.0.1" {
		t.Errorf("address is %q", got)
	}
	if got := (&nestedContainer{networked: true}).ProbeAddress(); got != "" {
		t.Errorf("address of a task with a network of its own is %q", got)
	}
}
