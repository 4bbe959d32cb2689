package usagehistory

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mesos-gpu/framework/api"
)

const (
	// Folder contains the documents: those of days and those of runs of jobs.
	Folder    = "usage/"
	dayPrefix = Folder + "day/"
	jobPrefix = Folder + "job/"

	// keptDays is how long documents are kept.
	keptDays = 30
	// SampleInterval is the time between two calls of Record.
	SampleInterval = time.Minute
	// recentSamples are kept in memory, for the charts of the last hour.
	recentSamples = 60
	// checkpointInterval is the time after which a live job's series is stored again, and
	// maxCheckpoints how many series of live jobs are stored at a time.
	checkpointInterval = 10 * time.Minute
	maxCheckpoints     = 100
	// maxJobBytes limits the series of all ended jobs together; the oldest are removed.
	maxJobBytes = 40 << 20
	// dropInterval is the time between two searches for old documents.
	dropInterval = time.Hour
	// maxViewPoints limits the points of an answer.
	maxViewPoints = 400
)

// Recorder collects the samples of a leader. It is safe for concurrent use. It does not store anything: Record returns
// the documents that have changed, again until the caller confirms by MarkStored that they are stored.
type Recorder struct {
	mu sync.Mutex
	// days are the stored days by number; see dayOf.
	days map[int64]*clusterDay
	// recent are the last samples, oldest first, at most recentSamples. A new leader has none.
	recent []timedSample
	// jobs are the series of the live jobs by run, such as "train@3".
	jobs map[string]*liveSeries
	// stored are the sizes of the documents of jobs, by key; total is their sum.
	stored map[string]storedSeries
	total  int
	// unstored are the documents that Record has returned and that are not stored; nil ones are to be deleted.
	unstored map[string][]byte
	// dropped is when old documents were last looked for.
	dropped time.Time
}

// timedSample is a sample of the cluster and its time.
type timedSample struct {
	at time.Time
	ClusterSample
}

// liveSeries is the series of a live job. saved is when it was last stored.
type liveSeries struct {
	*jobSeries
	saved time.Time
}

// storedSeries describes a document of a job.
type storedSeries struct {
	// size is the size of the document in bytes, updated the series' Updated.
	size    int
	updated int64
}

// NewRecorder returns a recorder that continues the documents of an earlier leader. It returns
// the errors of damaged ones, which it replaces.
func NewRecorder(documents iter.Seq2[string, []byte]) (*Recorder, []error) {
	r := &Recorder{days: map[int64]*clusterDay{}, jobs: map[string]*liveSeries{}, stored: map[string]storedSeries{}, unstored: map[string][]byte{}}
	var errs []error
	for key, text := range documents {
		if err := r.loadDocument(key, text); err != nil {
			errs = append(errs, err)
		}
	}
	return r, errs
}

func (r *Recorder) loadDocument(key string, text []byte) error {
	if name, ok := strings.CutPrefix(key, dayPrefix); ok {
		number, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return err
		}
		d, err := decodeDay(text)
		if err == nil {
			r.days[number] = d
		}
		return err
	}
	run, ok := strings.CutPrefix(key, jobPrefix)
	if !ok {
		return nil
	}
	s, err := decodeJobSeries(text)
	if err != nil {
		return err
	}
	r.noteStored(key, text, s)
	if !s.Ended {
		r.jobs[run] = &liveSeries{jobSeries: s, saved: time.Unix(s.Updated, 0)}
	}
	return nil
}

// noteStored counts the document of a job's series.
func (r *Recorder) noteStored(key string, text []byte, s *jobSeries) {
	r.total += len(text) - r.stored[key].size
	r.stored[key] = storedSeries{len(text), s.Updated}
}

// Record adds the samples of the last minute. It returns the documents to store, those of earlier calls that are not stored
// included; an empty one is to be deleted. A live job that is not in jobs held no GPU; isLive reports whether a run has not
// ended.
func (r *Recorder) Record(now time.Time, cluster ClusterSample, jobs map[string]JobSample, isLive func(run string) bool) map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	documents := r.unstored
	r.recordCluster(now, cluster, documents)
	for run, one := range jobs {
		s := r.jobs[run]
		if s == nil {
			s = &liveSeries{newJobSeries(now.Add(-SampleInterval)), now}
			r.jobs[run] = s
		}
		s.addSample(now, one)
	}
	r.storeJobs(now, isLive, documents)
	if r.total > maxJobBytes || now.Sub(r.dropped) >= dropInterval {
		r.dropped = now
		r.dropOldDocuments(now, documents)
	}
	return maps.Clone(documents)
}

// MarkStored confirms that the documents that Record returned last are stored.
func (r *Recorder) MarkStored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.unstored)
}

// recordCluster adds a sample of the cluster. The first sample of an interval stores the point of the interval before,
// which is complete then.
func (r *Recorder) recordCluster(now time.Time, cluster ClusterSample, documents map[string][]byte) {
	var last time.Time
	if n := len(r.recent); n > 0 {
		last = r.recent[n-1].at
	}
	r.recent = append(r.recent, timedSample{now, cluster})
	r.recent = r.recent[max(0, len(r.recent)-recentSamples):]
	if last.IsZero() {
		return
	}
	day, point := dayOf(last)
	if nowDay, nowPoint := dayOf(now); nowDay == day && nowPoint == point {
		return
	}
	var samples []ClusterSample
	for _, s := range r.recent {
		if d, p := dayOf(s.at); d == day && p == point {
			samples = append(samples, s.ClusterSample)
		}
	}
	d := r.days[day]
	if d == nil {
		d = &clusterDay{}
		r.days[day] = d
	}
	mean := meanOf(samples)
	d.setPoint(point, &mean)
	documents[dayPrefix+strconv.FormatInt(day, 10)] = encode(d)
}

// storeJobs stores the series of jobs that have ended, and those of some live jobs that were not
// stored for a while.
func (r *Recorder) storeJobs(now time.Time, isLive func(string) bool, documents map[string][]byte) {
	var due []string
	for run, s := range r.jobs {
		if !isLive(run) {
			s.Ended = true
			r.storeJob(run, s.jobSeries, documents)
			delete(r.jobs, run)
		} else if now.Sub(s.saved) >= checkpointInterval && s.Updated > s.saved.Unix() {
			due = append(due, run)
		}
	}
	slices.SortFunc(due, func(a, b string) int {
		return cmp.Or(r.jobs[a].saved.Compare(r.jobs[b].saved), cmp.Compare(a, b))
	})
	for _, run := range due[:min(len(due), maxCheckpoints)] {
		r.storeJob(run, r.jobs[run].jobSeries, documents)
		r.jobs[run].saved = now
	}
}

// storeJob adds the document of a series.
func (r *Recorder) storeJob(run string, s *jobSeries, documents map[string][]byte) {
	text := encode(s)
	documents[jobPrefix+run] = text
	r.noteStored(jobPrefix+run, text, s)
}

// dropOldDocuments deletes days and jobs of more than 30 days ago, and the oldest ended jobs
// above the limit.
func (r *Recorder) dropOldDocuments(now time.Time, documents map[string][]byte) {
	today, _ := dayOf(now)
	for day := range r.days {
		if day <= today-keptDays-1 || day > today+1 {
			delete(r.days, day)
			documents[dayPrefix+strconv.FormatInt(day, 10)] = nil
		}
	}
	oldest := now.Add(-keptDays * 24 * time.Hour).Unix()
	drop := func(key string) {
		r.total -= r.stored[key].size
		delete(r.stored, key)
		documents[key] = nil
	}
	var ended []string
	for key, s := range r.stored {
		switch {
		case r.jobs[strings.TrimPrefix(key, jobPrefix)] != nil:
		case s.updated < oldest:
			drop(key)
		default:
			ended = append(ended, key)
		}
	}
	if r.total <= maxJobBytes {
		return
	}
	slices.SortFunc(ended, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.stored[a].updated, r.stored[b].updated), cmp.Compare(a, b))
	})
	for _, key := range ended {
		if r.total <= maxJobBytes {
			return
		}
		drop(key)
	}
}

// encode encodes a document. Numbers, strings and booleans always encode.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// JobHistory returns the series of a run, or of the document that an earlier leader has stored;
// it is empty if there is neither.
func (r *Recorder) JobHistory(run string, stored func(key string) []byte) api.JobUsageHistory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.jobs[run]; s != nil {
		return s.view()
	}
	text, isUnstored := r.unstored[jobPrefix+run]
	if !isUnstored {
		text = stored(jobPrefix + run)
	}
	s, err := decodeJobSeries(text)
	if err != nil {
		s = &jobSeries{Interval: int64(SampleInterval / time.Second)}
	}
	return s.view()
}

// ClusterHistory returns the last hours, with at most maxViewPoints points. The last hour has a
// point for each minute that this leader has recorded.
func (r *Recorder) ClusterHistory(now time.Time, hours int) api.ClusterHistory {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := now.Add(-time.Duration(hours) * time.Hour).Unix()
	interval := int64(pointInterval / time.Second)
	var points []viewPoint
	for _, day := range slices.Sorted(maps.Keys(r.days)) {
		for point := range r.days[day].Waiting {
			at := pointTime(day, point)
			if at <= since || at > now.Unix() {
				continue
			}
			if s, ok := r.days[day].sampleAt(point); ok {
				points = append(points, viewPoint{at, s})
			}
		}
	}
	if hours == 1 && len(r.recent) > 0 {
		first := r.recent[0].at.Unix()
		points = slices.DeleteFunc(points, func(p viewPoint) bool { return p.at >= first })
		interval = int64(SampleInterval / time.Second)
	}
	for _, s := range r.recent {
		if at := s.at.Unix(); at > since && (len(points) == 0 || at > points[len(points)-1].at) {
			points = append(points, viewPoint{at, s.ClusterSample})
		}
	}
	if span := int64(hours) * 3600; span/interval > maxViewPoints {
		interval *= (span/interval + maxViewPoints - 1) / maxViewPoints
		points = joinPoints(points, interval)
	}
	return viewOf(points, interval)
}

// viewPoint is a point of an answer; at is its end in seconds since 1970.
type viewPoint struct {
	at int64
	ClusterSample
}

// joinPoints replaces the points of each interval by their mean, at the last of their times.
func joinPoints(points []viewPoint, interval int64) (joined []viewPoint) {
	for len(points) > 0 {
		n := 1
		for n < len(points) && (points[n].at-1)/interval == (points[0].at-1)/interval {
			n++
		}
		samples := make([]ClusterSample, n)
		for i := range n {
			samples[i] = points[i].ClusterSample
		}
		joined = append(joined, viewPoint{points[n-1].at, meanOf(samples)})
		points = points[n:]
	}
	return joined
}

// viewOf returns points as the API shows them: a list for each type, with 0 GPUs where the type did not exist.
func viewOf(points []viewPoint, interval int64) api.ClusterHistory {
	v := api.ClusterHistory{Times: []int64{}, IntervalSeconds: int(interval), WaitingGPUs: []float64{}, Types: []api.TypeHistory{}}
	names := map[string]bool{}
	for _, p := range points {
		v.Times, v.WaitingGPUs = append(v.Times, p.at), append(v.WaitingGPUs, roundTo(p.WaitingGPUs, 100))
		for name := range p.Types {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		t := api.TypeHistory{Type: name}
		for _, p := range points {
			one := p.Types[name]
			t.GPUs, t.Held = append(t.GPUs, roundTo(one.GPUs, 100)), append(t.Held, roundTo(one.Held, 100))
			var duty *float64
			if one.Measured > 0 {
				value := roundTo(one.Duty, 1000)
				duty = &value
			}
			t.Duty = append(t.Duty, duty)
		}
		v.Types = append(v.Types, t)
	}
	return v
}
