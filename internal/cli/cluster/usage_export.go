package cluster

import (
	"encoding/csv"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/api"
)

// writeAttemptsCSV writes one line for each attempt as they are read.
func writeAttemptsCSV(to io.Writer, list iter.Seq2[api.AccountedAttempt, error]) error {
	w := csv.NewWriter(to)
	names, _ := attemptColumns(&api.AccountedAttempt{})
	_ = w.Write(names)
	for t, err := range list {
		if err != nil {
			w.Flush()
			return err
		}
		_, values := attemptColumns(&t)
		_ = w.Write(values)
	}
	w.Flush()
	return w.Error()
}

// attemptColumns returns the names and values of the columns of an attempt: durations in seconds, memory in MiB,
// energy in joules. Times and the exit code are empty if they are unknown. gpus counts the GPUs by type, for example
// "A100=2"; devices are their UUIDs.
func attemptColumns(t *api.AccountedAttempt) (names, values []string) {
	exitCode := ""
	if t.ExitCode != nil {
		exitCode = strconv.Itoa(*t.ExitCode)
	}
	u := usageOf(t)
	for _, c := range [][2]string{
		{"task", escapeFormula(t.Task)},
		{"job", escapeFormula(t.Job)},
		{"run", strconv.Itoa(t.Run)},
		{"index", strconv.Itoa(t.Index)},
		{"attempt", strconv.Itoa(t.Attempt)},
		{"user", escapeFormula(t.Owner)},
		{"role", escapeFormula(t.Role)},
		{"host", escapeFormula(t.Host)},
		{"state", escapeFormula(string(t.State))},
		{"reason", escapeFormula(t.Reason)},
		{"exit_code", exitCode},
		{"queued", formatTime(t.Queued)},
		{"launched", formatTime(t.Launched)},
		{"started", formatTime(t.Started)},
		{"ended", formatTime(t.Ended)},
		{"cpus", formatNumber(t.CPUs)},
		{"gpus", escapeFormula(formatByType(t.GPUTypes))},
		{"devices", strings.Join(slices.Sorted(maps.Keys(t.Devices)), " ")},
		{"wait_seconds", formatNumber(t.WaitSeconds)},
		{"gpu_seconds", formatNumber(t.GPUSeconds)},
		{"measured_gpu_seconds", formatNumber(u.GPUSeconds)},
		{"busy_gpu_seconds", formatNumber(u.BusyGPUSeconds)},
		{"mem_mib_seconds", formatNumber(u.MemMiBSeconds)},
		{"mem_used_mib_seconds", formatNumber(u.MemUsedMiBSeconds)},
		{"max_mem_mib", formatNumber(u.MaxMemMiB)},
		{"joules", formatNumber(u.Joules)},
	} {
		names, values = append(names, c[0]), append(values, c[1])
	}
	return names, values
}

// formatTime formats a time, or returns an empty text if it is unknown.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

func writeGroupsCSV(to io.Writer, report *api.AccountingReport) error {
	w := csv.NewWriter(to)
	names, total := sumColumns(&report.Total)
	_ = w.Write(append(slices.Clone(report.By), names...))
	if len(report.By) == 0 {
		_ = w.Write(total)
	}
	for i := range report.Groups {
		g := &report.Groups[i]
		var row []string
		for _, key := range report.By {
			row = append(row, escapeFormula(g.Keys[key]))
		}
		_, values := sumColumns(&g.AccountingSums)
		_ = w.Write(append(row, values...))
	}
	w.Flush()
	return w.Error()
}

// sumColumns returns the names and values of the columns of sums.
func sumColumns(s *api.AccountingSums) (names, values []string) {
	for _, c := range []struct {
		name  string
		value float64
	}{
		{"attempts", float64(s.Attempts)},
		{"unfinished", float64(s.Unfinished)},
		{"gpu_seconds", s.GPUSeconds},
		{"unfinished_gpu_seconds", s.UnfinishedGPUSeconds},
		{"cpu_seconds", s.CPUSeconds},
		{"wait_seconds", s.WaitSeconds},
		{"measured_gpu_seconds", s.Usage.GPUSeconds},
		{"busy_gpu_seconds", s.Usage.BusyGPUSeconds},
		{"mem_mib_seconds", s.Usage.MemMiBSeconds},
		{"mem_used_mib_seconds", s.Usage.MemUsedMiBSeconds},
		{"max_mem_mib", s.Usage.MaxMemMiB},
		{"joules", s.Usage.Joules},
	} {
		names, values = append(names, c.name), append(values, formatNumber(c.value))
	}
	return names, values
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// escapeFormula makes spreadsheets show a text that they would execute. Names of jobs and users are free texts.
func escapeFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
