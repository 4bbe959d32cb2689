package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/forecast"
	"mesos-gpu/framework/sched/prediction"
	"mesos-gpu/job"
)

// runTimes predicts how long tasks run. It is rebuilt from the recorded jobs and attempts after a failover. Predictions
// order jobs and plan resources; nothing else depends on them. The methods of a nil *runTimes do nothing.
type runTimes struct {
	history *prediction.History
	// ofJobs are the predictions of jobs that have not ended. Each is made once, when it is first needed, so that the order
	// of the queue does not change with each end of a task.
	ofJobs map[*job.Job]prediction.Prediction
	// estimates are the first estimates of the starts of waiting jobs, and calibration compares those of earlier jobs with
	// their real starts. Neither is recorded.
	estimates   map[*job.Job]startEstimate
	calibration forecast.Calibration
}

// startEstimate is an estimate that was made at a time.
type startEstimate struct {
	made     time.Time
	expected time.Duration
}

// restoreRunTimes builds the history from all recorded tasks that have ended, in the order of their ends.
func (s *State) restoreRunTimes() {
	if !s.cfg.PredictRunTimes {
		return
	}
	s.runTimes = &runTimes{history: prediction.NewHistory(), ofJobs: map[*job.Job]prediction.Prediction{}, estimates: map[*job.Job]startEstimate{}}
	type run struct {
		job  *job.Job
		task *job.Task
	}
	var runs []run
	for _, ref := range s.tasks {
		if t := ref.get(); !t.State.IsLive() {
			runs = append(runs, run{ref.job, t})
		}
	}
	for key, text := range s.DocumentsIn(attemptPrefix) {
		_, t, _ := ParseAttempt(key, text)
		if j, ok := s.jobs.FindRun(t.RunID()); ok {
			runs = append(runs, run{j, &t})
		}
	}
	slices.SortFunc(runs, func(a, b run) int {
		return cmp.Or(a.task.Ended.Compare(b.task.Ended), cmp.Compare(a.task.ID, b.task.ID))
	})
	for _, r := range runs {
		s.runTimes.addTask(r.job, r.task)
	}
}

// addTask adds the run time of a task that has ended. It ignores tasks that the scheduler stopped or lost, which would
// have run for longer, and those of services. The tasks of a gang end together and count once.
func (r *runTimes) addTask(j *job.Job, t *job.Task) {
	stopped := t.State == job.Killed && t.KillReason != job.KillByUser && t.KillReason != job.KillByTimeout
	if r == nil || t.Started.IsZero() || t.Ended.IsZero() || stopped || t.State == job.Lost || j.Spec.Service != nil || j.Spec.Gang && t.Index > 0 {
		return
	}
	r.history.AddRun(j.Spec, t.Ended.Sub(t.Started))
}

// predictJob returns the prediction for the tasks of a job that has not ended, and false if none exists.
func (r *runTimes) predictJob(j *job.Job) (prediction.Prediction, bool) {
	if r == nil || j.Spec.Service != nil {
		return prediction.Prediction{}, false
	}
	p, ok := r.ofJobs[j]
	if !ok {
		if p, ok = r.history.Predict(j.Spec); ok {
			r.ofJobs[j] = p
		}
	}
	return p, ok
}

// predictSpec is predictJob for a job that need not have been submitted. A declared run time is the prediction if there
// is no history, and DefaultRunTime if that is missing too.
func (r *runTimes) predictSpec(s *job.Spec) prediction.Prediction {
	if r != nil {
		if p, ok := r.history.Predict(s); ok {
			return p
		}
	}
	return prediction.Exact(cmp.Or(s.ExpectedRunTime(), prediction.DefaultRunTime))
}

// predictEnd returns when a running task probably ends, so that resources can be reserved for a job that waits for them.
// It is never in the past. It returns zero for the tasks of services, and without predictions.
func (r *runTimes) predictEnd(j *job.Job, since, now time.Time) time.Time {
	if r == nil || j.Spec.Service != nil {
		return time.Time{}
	}
	p, ok := r.predictJob(j)
	if !ok || j.Spec.RunTime > 0 {
		p = prediction.Exact(cmp.Or(j.Spec.ExpectedRunTime(), prediction.DefaultRunTime))
	}
	end := since.Add(p.ExpectedTotal(now.Sub(since)))
	if timeout := j.Spec.Timeout; timeout > 0 && since.Add(timeout).Before(end) && since.Add(timeout).After(now) {
		end = since.Add(timeout)
	}
	return end
}

// dropJob forgets a job that has ended, or whose specification has changed.
func (r *runTimes) dropJob(j *job.Job) {
	if r != nil {
		delete(r.ofJobs, j)
		delete(r.estimates, j)
	}
}

// PredictRunTime returns how long tasks of the job probably run, 0 if it declares nothing and no similar task has ended.
func (s *State) PredictRunTime(spec *job.Spec) time.Duration {
	if spec.RunTime == 0 && spec.Service == nil && s.runTimes != nil {
		if p, ok := s.runTimes.history.Predict(spec); ok {
			return p.RunTime
		}
	}
	return spec.ExpectedRunTime()
}

// maxEstimates limits the estimates that are kept until their jobs start.
const maxEstimates = 10_000

// KeepEstimates keeps the first estimate of each waiting job, which is compared with its real start.
func (s *State) KeepEstimates(made time.Time, starts map[job.RunID]forecast.Start) {
	if s.runTimes == nil {
		return
	}
	for run, e := range starts {
		j, ok := s.jobs.FindRun(run)
		if !ok || s.placed.tasks[j] > 0 || len(s.runTimes.estimates) >= maxEstimates {
			continue
		}
		if _, known := s.runTimes.estimates[j]; !known {
			s.runTimes.estimates[j] = startEstimate{made, e.Expected}
		}
	}
}

// noteLaunch compares the estimate of a job with its first launch.
func (r *runTimes) noteLaunch(j *job.Job, now time.Time) {
	if r == nil {
		return
	}
	if e, known := r.estimates[j]; known {
		r.calibration.AddStart(e.expected, now.Sub(e.made))
		delete(r.estimates, j)
	}
}
