package api

import (
	"slices"
	"time"

	"mesos-gpu/marathon"
)

// appStats summarize an app's tasks: all of them, and by their version.
type appStats struct {
	SinceScaling *statsHolder `json:"startedAfterLastScaling,omitempty"`
	Latest       *statsHolder `json:"withLatestConfig,omitempty"`
	Outdated     *statsHolder `json:"withOutdatedConfig,omitempty"`
	Total        *statsHolder `json:"totalSummary,omitempty"`
}

type statsHolder struct {
	Stats taskStats `json:"stats"`
}

type taskStats struct {
	Counts   statsCounts `json:"counts"`
	LifeTime *lifeTime   `json:"lifeTime,omitempty"`
}

type statsCounts struct {
	Staged    int `json:"staged"`
	Running   int `json:"running"`
	Healthy   int `json:"healthy"`
	Unhealthy int `json:"unhealthy"`
}

// lifeTime is measured from when tasks were staged.
type lifeTime struct {
	AverageSeconds float64 `json:"averageSeconds"`
	MedianSeconds  float64 `json:"medianSeconds"`
}

func summarizeTasks(v *marathon.VersionInfo, tasks []AppTask, now time.Time) *appStats {
	all := &appStats{Total: summarizeMatching(tasks, now, func(string) bool { return true })}
	if v == nil {
		return all
	}
	// Versions are times in one format and compare as texts.
	all.SinceScaling = summarizeMatching(tasks, now, func(version string) bool { return version >= v.LastScalingAt })
	all.Latest = summarizeMatching(tasks, now, func(version string) bool { return version >= v.LastConfigChangeAt })
	all.Outdated = summarizeMatching(tasks, now, func(version string) bool { return version < v.LastConfigChangeAt })
	return all
}

// summarizeMatching returns nil if no task matches.
func summarizeMatching(tasks []AppTask, now time.Time, of func(version string) bool) *statsHolder {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t AppTask) bool { return !of(t.Version) })
	if len(tasks) == 0 {
		return nil
	}
	c := countTasks(tasks)
	return &statsHolder{taskStats{Counts: statsCounts(c), LifeTime: taskLifeTime(tasks, now)}}
}

func taskLifeTime(tasks []AppTask, now time.Time) *lifeTime {
	var seconds []float64
	sum := 0.0
	for _, t := range tasks {
		if t.StagedAt.IsZero() {
			continue
		}
		s := now.Sub(t.StagedAt.Time).Seconds()
		seconds, sum = append(seconds, s), sum+s
	}
	if len(seconds) == 0 {
		return nil
	}
	slices.Sort(seconds)
	return &lifeTime{AverageSeconds: sum / float64(len(seconds)), MedianSeconds: seconds[len(seconds)/2]}
}
