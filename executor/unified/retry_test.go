package unified

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/encoding"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"

	"mesos-gpu/internal/memorycgroup"
)

// fakeAnswer is one response to a call; hang blocks until ctx ends.
type fakeAnswer struct {
	response *agent.Response
	err      error
	hang     bool
}

// scriptedSender answers one type of call with the given responses in order, and counts
// SIGKILLs.
type scriptedSender struct {
	answers []fakeAnswer
	kills   int
}

func (s *scriptedSender) Send(ctx context.Context, r calls.Request) (mesos.Response, error) {
	call := r.Call()
	if call.GetType() == agent.Call_KILL_NESTED_CONTAINER {
		if syscall.Signal(*call.KillNestedContainer.Signal) == syscall.SIGKILL {
			s.kills++
		}
		return nil, nil
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	if next.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if next.response == nil {
		return nil, next.err
	}
	return &httpcli.Response{Closer: io.NopCloser(nil), Decoder: encoding.DecoderFunc(func(u encoding.Unmarshaler) error {
		*u.(*agent.Response) = *next.response
		return nil
	})}, nil
}

func nested(t *testing.T, answers ...fakeAnswer) (*nestedContainer, *scriptedSender) {
	s := &scriptedSender{answers: answers}
	return &nestedContainer{agent: s, id: mesos.ContainerID{Value: "nested"}, log: quiet(t), ended: make(chan struct{}), output: endedWatch()}, s
}

func TestWaitSurvivesAgentRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := int32(syscall.SIGKILL)
		message := "memory limit exceeded"
		r, s := nested(t,
			fakeAnswer{err: io.ErrUnexpectedEOF},                      // the connection breaks
			fakeAnswer{err: errors.New("connection refused")},         // the agent is not running
			fakeAnswer{err: apierrors.CodeMesosUnavailable.Error("")}, // the agent is recovering
			fakeAnswer{response: waited(agent.Response_WaitNestedContainer{
				ExitStatus: &status, Message: &message, State: mesos.TASK_FAILED.Enum(), Reason: mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum(),
			})},
		)
		start := time.Now()
		exit, err := r.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got != 3*retryInterval {
			t.Errorf("three new attempts took %s, want %s", got, 3*retryInterval)
		}
		if got, want := exit.String(), "killed by signal 9 (SIGKILL): memory limit exceeded"; got != want {
			t.Errorf("task was %q, want %q", got, want)
		}
		if *exit.State != mesos.TASK_FAILED || *exit.Reason != mesos.REASON_CONTAINER_LIMITATION_MEMORY || s.kills != 0 {
			t.Errorf("state %s, reason %s, %d kills", *exit.State, *exit.Reason, s.kills)
		}
	})
}

// Agents whose nested containers share the executor's cgroup report a SIGKILL without a reason.
func TestWaitExplainsOutOfMemory(t *testing.T) {
	killed, failed, finished := int32(syscall.SIGKILL), int32(3<<8), int32(0)
	dir := t.TempDir()
	own, other := filepath.Join(dir, "parent"), filepath.Join(dir, "agent")
	for path, kills := range map[string]int{own: 1, other: 1, filepath.Join(dir, "calm", "parent"): 0} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"memory.limit_in_bytes":     "85983232",
			"memory.max_usage_in_bytes": "85983232",
			"memory.oom_control":        fmt.Sprintf("oom_kill %d\n", kills),
		} {
			if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	const says = ": out of memory: the limit is 82 MiB, the peak was 82 MiB, with the executor"
	for _, tt := range []struct {
		name, cgroup string
		status       *int32
		want         string
	}{
		{"killed", own, &killed, "killed by signal 9 (SIGKILL)" + says},
		{"a child was killed", own, &failed, "exited with status 3" + says},
		{"finished", own, &finished, "exited with status 0"},
		{"no lack of memory", filepath.Join(dir, "calm", "parent"), &killed, "killed by signal 9 (SIGKILL)"},
		{"the agent's cgroup", other, &killed, "killed by signal 9 (SIGKILL)"},
	} {
		r, _ := nested(t, fakeAnswer{response: waited(agent.Response_WaitNestedContainer{ExitStatus: tt.status})})
		r.id.Parent, r.memory = &mesos.ContainerID{Value: "parent"}, memorycgroup.Open(tt.cgroup)
		exit, err := r.Wait(t.Context())
		if err != nil || exit.String() != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, exit, err, tt.want)
		}
		if says := exit.Reason != nil; says != strings.Contains(tt.want, "memory") {
			t.Errorf("%s: the reason is %v", tt.name, exit.Reason)
		}
	}
}

func TestWaitReturnsExitStatus(t *testing.T) {
	tests := []struct {
		name   string
		answer fakeAnswer
		want   string
	}{
		{"container forgotten", fakeAnswer{err: apierrors.CodeNotFound.Error("")}, "agent has no record of how nested container nested ended"},
		{"no body", fakeAnswer{}, "without a body"},
		{"another answer", fakeAnswer{response: &agent.Response{Type: agent.Response_GET_HEALTH}}, "agent answered GET_HEALTH"},
		{"refused", fakeAnswer{err: apierrors.Code(http.StatusInternalServerError).Error("broken")}, "wait for nested container nested: "},
		{"not understood", fakeAnswer{err: httpcli.ProtocolError("unexpected content type")}, "unexpected content type"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := nested(t, tt.answer)
				if _, err := r.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got error %v, want %q in it", err, tt.want)
				}
			})
		})
	}
}

func TestWaitWithoutExitStatus(t *testing.T) {
	message := "container destroyed during provisioning"
	r, _ := nested(t, fakeAnswer{response: waited(agent.Response_WaitNestedContainer{Message: &message})})
	exit, err := r.Wait(t.Context())
	if err != nil || exit.Succeeded() || exit.String() != "ended without an exit status: "+message {
		t.Errorf("task %s (%v), want no success and the agent's message", exit, err)
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := nested(t, fakeAnswer{err: io.ErrUnexpectedEOF}, fakeAnswer{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the deadline", err)
		}
		if s.kills != 1 {
			t.Errorf("container got %d SIGKILLs, want 1", s.kills)
		}
	})
}

func TestLaunchEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedSender{answers: []fakeAnswer{{err: errors.New("connection refused")}, {hang: true}}}
		u := &NestedRuntime{pollOutput: true, Agent: s, Sandbox: t.TempDir(), Log: quiet(t)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := u.Start(ctx, work()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the deadline", err)
		}
		if s.kills != 1 {
			t.Errorf("container got %d SIGKILLs, want 1: the agent may have launched it", s.kills)
		}
	})
}

// endedWatch returns a watch of output that notices nothing.
func endedWatch() *outputWatch {
	done := make(chan struct{})
	close(done)
	return &outputWatch{stop: func() {}, done: done}
}
