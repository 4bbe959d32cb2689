package leader

import (
	"context"

	"mesos-gpu/framework/sched"
)

// TrackConnection counts a client that is connected to a job until done is called, which must happen once. A job with
// clients is not idle. Jobs without an idle timeout need no count. Counts are not recorded: connections end with the
// scheduler through which they run.
func (s *TaskStreams) TrackConnection(name string) (done func()) {
	j, ok := s.leader.Model.CopyJob(name)
	if !ok || j.Spec.IdleTimeout == 0 {
		return func() {}
	}
	count := func(e sched.Event) error {
		return s.leader.runInLoop(context.Background(), func(apply func(sched.Event)) { apply(e) }, func(*sched.State) error { return nil })
	}
	run := j.RunID().String() // name may mean a later run when the client leaves
	if count(sched.ClientConnected{Job: run}) != nil {
		return func() {} // this scheduler stops leading
	}
	return func() { _ = count(sched.ClientDisconnected{Job: run}) } // fails only if this scheduler stops leading
}
