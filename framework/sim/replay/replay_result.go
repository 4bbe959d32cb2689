package replay

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"mesos-gpu/job"
)

// ReplayResult contains the measurements of a replay. Times are in seconds.
type ReplayResult struct {
	Agents int `json:"agents"`
	GPUs   int `json:"gpus"`
	// Jobs have ended, Never started, Refused could not be submitted. Why is the first reason for a refusal.
	Jobs    int    `json:"jobs"`
	Tasks   int    `json:"tasks"`
	Never   int    `json:"never_started"`
	Refused int    `json:"refused"`
	Why     string `json:"refused_because,omitempty"`
	// Span is the time from the first arrival to the last end.
	Span float64 `json:"span"`
	// Wait ends when the first task of a job starts, Completion when its last one ends. Slowdown is Completion divided
	// by the run time, at least 10 s.
	Wait       SampleStats `json:"wait"`
	Completion SampleStats `json:"completion"`
	Slowdown   SampleStats `json:"slowdown"`
	// Run is the run time of jobs.
	Run SampleStats `json:"run"`
	// Allocation is the part of all GPUs over the span that was in use, in percent. Idle is the part that was free while
	// tasks waited. Broken is the part of free GPUs that was on agents in use.
	Allocation float64 `json:"allocation"`
	Idle       float64 `json:"idle_while_waiting"`
	Broken     float64 `json:"fragmentation"`
	// FinishTimeFairness is the completion time of jobs divided by that in ReplaySettings.OwnShare: above 1 where a job ends
	// later than on the share of its role alone. LateJobs counts those above LateFrom.
	FinishTimeFairness SampleStats `json:"finish_time_fairness,omitzero"`
	LateJobs           int         `json:"late_jobs,omitempty"`
	// Fairness is Jain's index of the roles' mean slowdowns: 1 means equal.
	Fairness float64                `json:"fairness"`
	Roles    map[string]*JobGroup   `json:"roles"`
	Sizes    map[int]*JobGroup      `json:"sizes"` // by GPUs
	Types    map[string]*ModelUsage `json:"types"`
	// InUse is the mean number of GPUs in use in each interval of sampleLength.
	InUse []float64 `json:"in_use"`
	// Preemptors are the jobs that may preempt others, with ReplaySettings.Short.
	Preemptors *JobGroup `json:"preemptors,omitempty"`
	// Preemptions counts tasks. Lost is the GPU time that they held in vain, in GPU seconds: work that was not saved, and the
	// time to save and load states.
	Preemptions int     `json:"preemptions"`
	Lost        float64 `json:"lost_gpu_seconds"`
	// Error is the error of predictions.
	Error *PredictionError `json:"prediction_error,omitempty"`
	// Estimates is the error of estimated starts.
	Estimates *EstimateError `json:"estimate_error,omitempty"`
	// Launches counts started tasks. Cycles, Steps and Offers count the scheduler's work.
	Launches int `json:"launches"`
	Cycles   int `json:"cycles"`
	Steps    int `json:"steps"`
	Offers   int `json:"offers"`

	// used counts the GPUs in use now. first is the time of the first arrival, once any is set.
	used  int
	first time.Duration
	any   bool
	// busyGPUSeconds, idle, broken and free are GPU seconds until now: in use, free while tasks waited, free on agents
	// in use, and free.
	busyGPUSeconds, idle, broken, free float64
	// wait, complete, slow and run are the samples of the statistics above.
	wait, complete, slow, run, finish sampleSet
	frag                              fragmentCounter
	// predictionErrors are |log2(predicted/real)| of the predicted jobs. estimates are the errors of estimated starts.
	predictionErrors []float32
	estimates        estimateErrors
}

// LateFrom is the finish-time fairness above which a job counts as late.
const LateFrom = 1.5

// JobGroup is the jobs of one role or size.
type JobGroup struct {
	Jobs       int         `json:"jobs"`
	GPUSeconds float64     `json:"gpu_seconds"`
	Wait       SampleStats `json:"wait"`
	Completion SampleStats `json:"completion"`
	Slowdown   SampleStats `json:"slowdown"`
	// FinishTimeFairness and LateJobs are as in ReplayResult.
	FinishTimeFairness SampleStats `json:"finish_time_fairness,omitzero"`
	LateJobs           int         `json:"late_jobs,omitempty"`

	wait, complete, slow, finish sampleSet
}

// ModelUsage is the usage of the GPUs of one model.
type ModelUsage struct {
	GPUs int `json:"gpus"`
	// Allocation is as in ReplayResult.
	Allocation float64 `json:"allocation"`

	busy float64
}

// PredictionError is the error of predictions.
type PredictionError struct {
	Jobs int `json:"jobs"`
	// Median is the median factor between predicted and real run times. Within2 is the percentage of jobs for which the
	// factor is at most 2.
	Median  float64 `json:"median_factor"`
	Within2 float64 `json:"within_2x"`
}

// newReplayResult counts the GPUs of the cluster by model. All other figures are 0.
func newReplayResult(cfg *ReplaySettings, m *virtualMaster) *ReplayResult {
	r := &ReplayResult{Agents: len(m.agents), Roles: map[string]*JobGroup{}, Sizes: map[int]*JobGroup{}, Types: map[string]*ModelUsage{}}
	for i := range m.agents {
		a := &m.agents[i]
		r.GPUs += a.GPUs
		if a.GPUs == 0 {
			continue
		}
		if r.Types[a.Model] == nil {
			r.Types[a.Model] = &ModelUsage{}
		}
		r.Types[a.Model].GPUs += a.GPUs
	}
	r.frag.initAgents(m)
	return r
}

// advanceTo adds the time until an instant, during which nothing changes.
func (r *ReplayResult) advanceTo(p *jobReplay, until time.Duration) {
	if !r.any {
		r.any, r.first = true, until
		return
	}
	from, used := p.now, float64(r.used)
	seconds := (until - from).Seconds()
	free := float64(r.GPUs - r.used)
	r.busyGPUSeconds += used * seconds
	r.free += free * seconds
	r.broken += float64(r.frag.broken) * seconds
	if p.waiting > 0 {
		r.idle += free * seconds
	}
	for from < until {
		at := int(from / sampleLength)
		end := min(until, time.Duration(at+1)*sampleLength)
		for len(r.InUse) <= at {
			r.InUse = append(r.InUse, 0)
		}
		r.InUse[at] += used * (end - from).Seconds() / sampleLength.Seconds()
		from = end
	}
}

// countRefused counts a job that could not be submitted and keeps the first reason.
func (r *ReplayResult) countRefused(err error) {
	if r.Refused++; r.Why == "" {
		r.Why = err.Error()
	}
}

// countLaunch counts a task that starts to hold its GPUs.
func (r *ReplayResult) countLaunch(p *jobReplay, t *runningTask) {
	r.Launches++
	r.used += t.resources.gpus.countDevices()
	r.frag.addUsed(t.agent, t.resources.gpus.countDevices())
}

// countEnd counts a task that no longer holds its GPUs. Each killed task counts as preempted, also one
// that reached its timeout.
func (r *ReplayResult) countEnd(p *jobReplay, t *runningTask, state job.State) {
	gpus := t.resources.gpus.countDevices()
	r.used -= gpus
	r.frag.addUsed(t.agent, -gpus)
	held := (p.now - t.start).Seconds() * float64(gpus)
	if gpus > 0 {
		r.Types[p.master.agents[t.agent].Model].busy += held
	}
	if state == job.Killed {
		r.Preemptions++
	}
	r.Lost += held - t.work.Seconds()*float64(gpus)
}

// countJob adds the times of a job that has ended to the samples of all jobs, of its role and of its size.
func (r *ReplayResult) countJob(p *jobReplay, l *liveJob) {
	r.Jobs++
	r.Tasks += l.spec.Tasks
	run := l.runTimes.longest().Seconds()
	wait, complete := (l.start - l.arrivesAt).Seconds(), (p.now - l.arrivesAt).Seconds()
	slow := max(complete/max(run, 10), 1)
	r.wait.addValue(wait)
	r.complete.addValue(complete)
	r.slow.addValue(slow)
	r.run.addValue(run)
	area := 0.0
	for i := range l.spec.Tasks {
		area += l.runTimes.forTask(i).Seconds() * float64(l.spec.Request.GPUs)
	}
	groups := []*JobGroup{groupFor(r.Roles, l.spec.Role), groupFor(r.Sizes, countGPUs(l.spec))}
	if p.cfg.Short > 0 && !l.spec.Preemptible {
		if r.Preemptors == nil {
			r.Preemptors = &JobGroup{}
		}
		groups = append(groups, r.Preemptors)
	}
	if own := p.cfg.OwnShare[l.spec.Name].Seconds(); own > 0 {
		r.finish.addValue(complete / own)
		for _, g := range groups {
			g.finish.addValue(complete / own)
		}
	}
	for _, g := range groups {
		g.Jobs++
		g.GPUSeconds += area
		g.wait.addValue(wait)
		g.complete.addValue(complete)
		g.slow.addValue(slow)
	}
}

// groupFor returns the group of a key, which it adds if it is missing.
func groupFor[K comparable](groups map[K]*JobGroup, key K) *JobGroup {
	if groups[key] == nil {
		groups[key] = &JobGroup{}
	}
	return groups[key]
}

// finishReplay computes the figures of a finished replay.
func (r *ReplayResult) finishReplay(p *jobReplay) *ReplayResult {
	r.Never = len(p.jobs)
	r.Span = (p.now - r.first).Seconds()
	r.computeFigures()
	return r
}

// MergeResults joins the results of independent clusters.
func MergeResults(list ...*ReplayResult) *ReplayResult {
	all := &ReplayResult{Roles: map[string]*JobGroup{}, Sizes: map[int]*JobGroup{}, Types: map[string]*ModelUsage{}}
	for _, r := range list {
		all.addResult(r)
	}
	all.computeFigures()
	return all
}

// addResult adds the sums and samples of another cluster. computeFigures computes the rest from them.
func (r *ReplayResult) addResult(o *ReplayResult) {
	r.Agents, r.GPUs, r.Jobs, r.Tasks, r.Never, r.Refused = r.Agents+o.Agents, r.GPUs+o.GPUs, r.Jobs+o.Jobs, r.Tasks+o.Tasks, r.Never+o.Never, r.Refused+o.Refused
	r.Why, r.Span = cmp.Or(r.Why, o.Why), max(r.Span, o.Span)
	r.Preemptions, r.Lost, r.predictionErrors = r.Preemptions+o.Preemptions, r.Lost+o.Lost, append(r.predictionErrors, o.predictionErrors...)
	r.estimates.merge(&o.estimates)
	r.Launches, r.Cycles, r.Steps, r.Offers = r.Launches+o.Launches, r.Cycles+o.Cycles, r.Steps+o.Steps, r.Offers+o.Offers
	r.busyGPUSeconds, r.idle, r.free, r.broken = r.busyGPUSeconds+o.busyGPUSeconds, r.idle+o.idle, r.free+o.free, r.broken+o.broken
	r.wait.mergeSamples(&o.wait)
	r.complete.mergeSamples(&o.complete)
	r.slow.mergeSamples(&o.slow)
	r.run.mergeSamples(&o.run)
	r.finish.mergeSamples(&o.finish)
	if o.Preemptors != nil {
		if r.Preemptors == nil {
			r.Preemptors = &JobGroup{}
		}
		r.Preemptors.addGroup(o.Preemptors)
	}
	for name, g := range o.Roles {
		groupFor(r.Roles, name).addGroup(g)
	}
	for gpus, g := range o.Sizes {
		groupFor(r.Sizes, gpus).addGroup(g)
	}
	for model, t := range o.Types {
		if r.Types[model] == nil {
			r.Types[model] = &ModelUsage{}
		}
		r.Types[model].GPUs += t.GPUs
		r.Types[model].busy += t.busy
	}
	for i, x := range o.InUse {
		if i == len(r.InUse) {
			r.InUse = append(r.InUse, 0)
		}
		r.InUse[i] += x
	}
}

// addGroup adds the sums and samples of another group.
func (g *JobGroup) addGroup(o *JobGroup) {
	g.Jobs += o.Jobs
	g.GPUSeconds += o.GPUSeconds
	g.wait.mergeSamples(&o.wait)
	g.complete.mergeSamples(&o.complete)
	g.slow.mergeSamples(&o.slow)
	g.finish.mergeSamples(&o.finish)
}

// computeFigures computes the exported figures from sums and samples.
func (r *ReplayResult) computeFigures() {
	r.Wait, r.Completion, r.Slowdown, r.Run = r.wait.computeStats(), r.complete.computeStats(), r.slow.computeStats(), r.run.computeStats()
	r.FinishTimeFairness, r.LateJobs = r.finish.computeStats(), r.finish.countAbove(LateFrom)
	if all := float64(r.GPUs) * r.Span; all > 0 {
		r.Allocation, r.Idle = 100*r.busyGPUSeconds/all, 100*r.idle/all
		for _, t := range r.Types {
			t.Allocation = 100 * t.busy / (float64(t.GPUs) * r.Span)
		}
	}
	if r.free > 0 {
		r.Broken = 100 * r.broken / r.free
	}
	sum, squares := 0.0, 0.0
	for _, name := range slices.Sorted(maps.Keys(r.Roles)) { // a sum depends on its order
		g := r.Roles[name]
		g.computeStats()
		sum += g.Slowdown.Mean
		squares += g.Slowdown.Mean * g.Slowdown.Mean
	}
	if squares > 0 {
		r.Fairness = sum * sum / (float64(len(r.Roles)) * squares)
	}
	for _, g := range r.Sizes {
		g.computeStats()
	}
	if r.Preemptors != nil {
		r.Preemptors.computeStats()
	}
	r.Error, r.Estimates = newPredictionError(r.predictionErrors), r.estimates.summarize()
}

// computeStats computes the exported statistics from the samples.
func (g *JobGroup) computeStats() {
	g.Wait, g.Completion, g.Slowdown = g.wait.computeStats(), g.complete.computeStats(), g.slow.computeStats()
	g.FinishTimeFairness, g.LateJobs = g.finish.computeStats(), g.finish.countAbove(LateFrom)
}

// newPredictionError summarizes |log2(predicted/real)| of jobs, nil if there are none. It sorts the list.
func newPredictionError(off []float32) *PredictionError {
	if len(off) == 0 {
		return nil
	}
	slices.Sort(off)
	within, _ := slices.BinarySearch(off, 1.0000001)
	return &PredictionError{
		Jobs: len(off), Median: math.Exp2(float64(off[len(off)/2])), Within2: 100 * float64(within) / float64(len(off)),
	}
}
