package task

import (
	"errors"
	"testing"

	"mesos-gpu/job"
)

// The agent's answer to a launch is text: a mark in it tells that the machine is at fault.
func TestParseAgentFault(t *testing.T) {
	refused := errors.New("500: " + job.MarkMachineFault("prepare container c: no driver", job.NoDriver))
	fault := (*MachineFaultError)(nil)
	if err := ParseAgentFault(refused); !errors.As(err, &fault) || fault.Fault != job.NoDriver || !errors.Is(err, refused) || err.Error() != refused.Error() {
		t.Errorf("got %v", err)
	}
	other := errors.New("500: out of memory")
	if err := ParseAgentFault(other); err != other {
		t.Errorf("another error became %v", err)
	}
	if err := ParseAgentFault(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
