package cluster

import (
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"mesos-gpu/framework/api"
)

// attemptRow is an ended attempt in exported files. Its fields are their columns, in this order: durations in seconds,
// memory in MiB, energy in joules. Times and the exit code are null in Parquet, and empty in CSV, if they are unknown.
type attemptRow struct {
	Task     string `parquet:"task"`
	Job      string `parquet:"job"`
	Run      int    `parquet:"run"`
	Index    int    `parquet:"index"`
	Attempt  int    `parquet:"attempt"`
	User     string `parquet:"user"`
	Role     string `parquet:"role"`
	Host     string `parquet:"host"`
	State    string `parquet:"state"`
	Reason   string `parquet:"reason"`
	ExitCode *int   `parquet:"exit_code,optional"`

	Queued   *time.Time `parquet:"queued,optional,timestamp(microsecond)"`
	Launched *time.Time `parquet:"launched,optional,timestamp(microsecond)"`
	Started  *time.Time `parquet:"started,optional,timestamp(microsecond)"`
	Ended    *time.Time `parquet:"ended,optional,timestamp(microsecond)"`

	CPUs float64 `parquet:"cpus"`
	// GPUs counts the GPUs by type, for example "A100=2". Devices are their UUIDs.
	GPUs    string   `parquet:"gpus"`
	Devices []string `parquet:"devices,list"`

	WaitSeconds        float64 `parquet:"wait_seconds"`
	GPUSeconds         float64 `parquet:"gpu_seconds"`
	MeasuredGPUSeconds float64 `parquet:"measured_gpu_seconds"`
	BusyGPUSeconds     float64 `parquet:"busy_gpu_seconds"`
	MemMiBSeconds      float64 `parquet:"mem_mib_seconds"`
	MemUsedMiBSeconds  float64 `parquet:"mem_used_mib_seconds"`
	MaxMemMiB          float64 `parquet:"max_mem_mib"`
	Joules             float64 `parquet:"joules"`
}

func newAttemptRow(t *api.AccountedAttempt) attemptRow {
	u := usageOf(t)
	return attemptRow{
		Task: t.Task, Job: t.Job, Run: t.Run, Index: t.Index, Attempt: t.Attempt, User: t.Owner, Role: t.Role, Host: t.Host,
		State: string(t.State), Reason: t.Reason, ExitCode: t.ExitCode,
		Queued: timeOrNil(t.Queued), Launched: timeOrNil(t.Launched), Started: timeOrNil(t.Started), Ended: timeOrNil(t.Ended),
		CPUs: t.CPUs, GPUs: formatByType(t.GPUTypes), Devices: slices.Sorted(maps.Keys(t.Devices)),
		WaitSeconds: t.WaitSeconds, GPUSeconds: t.GPUSeconds, MeasuredGPUSeconds: u.GPUSeconds, BusyGPUSeconds: u.BusyGPUSeconds,
		MemMiBSeconds: u.MemMiBSeconds, MemUsedMiBSeconds: u.MemUsedMiBSeconds, MaxMemMiB: u.MaxMemMiB, Joules: u.Joules,
	}
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// writeAttemptsParquet writes one row for each attempt. It has all rows of a row group in memory, 64,000 at most.
func writeAttemptsParquet(to io.Writer, list iter.Seq2[api.AccountedAttempt, error]) error {
	w := parquet.NewGenericWriter[attemptRow](to, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(64_000))
	for t, err := range list {
		if err != nil {
			return err // without Close, which would make a valid file of a part of the list
		}
		if _, err := w.Write([]attemptRow{newAttemptRow(&t)}); err != nil {
			return err
		}
	}
	return w.Close()
}

// writeAttemptsCSV writes one line for each attempt as they are read.
func writeAttemptsCSV(to io.Writer, list iter.Seq2[api.AccountedAttempt, error]) error {
	w := csv.NewWriter(to)
	var names []string
	for field := range reflect.TypeFor[attemptRow]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("parquet"), ",")
		names = append(names, name)
	}
	_ = w.Write(names)
	for t, err := range list {
		if err != nil {
			w.Flush()
			return err
		}
		var cells []string
		for _, value := range reflect.ValueOf(newAttemptRow(&t)).Fields() {
			cells = append(cells, formatCell(value.Interface()))
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return w.Error()
}

// formatCell formats a field of attemptRow.
func formatCell(value any) string {
	switch v := value.(type) {
	case string:
		return escapeFormula(v)
	case float64:
		return formatNumber(v)
	case []string:
		return strings.Join(v, " ")
	case *int:
		if v == nil {
			return ""
		}
		return strconv.Itoa(*v)
	case *time.Time:
		if v == nil {
			return ""
		}
		return v.Format(time.RFC3339Nano)
	}
	return fmt.Sprint(value)
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
