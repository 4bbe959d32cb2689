package job

// CopyEditable copies from another Spec what users may change after the submission. Tasks that hold places are not
// affected, except by the timeout.
func (s *Spec) CopyEditable(from *Spec) {
	s.Role, s.Priority, s.Preemptible = from.Role, from.Priority, from.Preemptible
	s.Request.Types, s.MaxParallel, s.Labels = from.Request.Types, from.MaxParallel, from.Labels
	s.Retries, s.Timeout, s.RunTime, s.MaxWait = from.Retries, from.Timeout, from.RunTime, from.MaxWait
	s.OnTimeout, s.MinRunTime, s.PreemptAfter = from.OnTimeout, from.MinRunTime, from.PreemptAfter
	s.Notify = from.Notify
}
