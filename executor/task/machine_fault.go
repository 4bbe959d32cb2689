package task

import "mesos-gpu/job"

// MachineFaultError is the failure of a task that did not start because of its machine.
type MachineFaultError struct {
	// Fault is the value of job.MachineFaultLabel.
	Fault string
	Err   error
}

func (e *MachineFaultError) Error() string { return e.Err.Error() }

func (e *MachineFaultError) Unwrap() error { return e.Err }

// ParseAgentFault returns an agent's answer with the mark of job.MarkMachineFault as a
// *MachineFaultError, and other errors unchanged. Mesos passes the error of a launch on as
// text.
func ParseAgentFault(answer error) error {
	if answer == nil {
		return nil
	}
	if _, fault := job.CutMachineFault(answer.Error()); fault != "" {
		return &MachineFaultError{fault, answer}
	}
	return answer
}
