package cli

import (
	"fmt"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
)

// FormatGPUHours formats GPU seconds as hours, such as "12.5 h".
func FormatGPUHours(seconds float64) string {
	hours := seconds / 3600
	switch {
	case hours >= 100:
		return fmt.Sprintf("%.0f h", hours)
	case hours >= 1:
		return fmt.Sprintf("%.1f h", hours)
	default:
		return fmt.Sprintf("%.3f h", hours)
	}
}

// FormatEnergy formats energy, such as "1.25 kWh", and "-" if it is unknown.
func FormatEnergy(joules float64) string {
	switch kWh := joules / 3.6e6; {
	case joules <= 0:
		return "-"
	case kWh >= 0.1:
		return fmt.Sprintf("%.2f kWh", kWh)
	default:
		return fmt.Sprintf("%.1f Wh", kWh*1000)
	}
}

// FormatPercent formats a fraction, and "-" if it is unknown.
func FormatPercent(fraction float64, known bool) string {
	if !known {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", fraction*100)
}

// FormatEfficiency returns one line about the GPU time of a job, "" if it had none.
func FormatEfficiency(one *api.JobAccounting) string {
	if one.GPUSeconds <= 0 {
		return ""
	}
	parts := []string{"GPUs held for " + FormatGPUHours(one.GPUSeconds)}
	u := &one.Usage
	duty, measured := u.Duty()
	switch {
	case measured:
		parts = append(parts, "busy "+FormatPercent(duty, true))
	case one.Pending > 0:
		parts = append(parts, "usage not read yet")
	default:
		parts = append(parts, "usage not measured")
	}
	if used, ok := u.MemFraction(); ok {
		parts = append(parts, fmt.Sprintf("memory %s, most %.1f GiB", FormatPercent(used, true), u.MaxMemMiB/1024))
	}
	if u.Joules > 0 {
		parts = append(parts, FormatEnergy(u.Joules))
	}
	if one.UnfinishedGPUSeconds > 0 && one.UnfinishedGPUSeconds < one.GPUSeconds {
		parts = append(parts, FormatGPUHours(one.UnfinishedGPUSeconds)+" of it in attempts that did not finish")
	}
	if wait := time.Duration(one.WaitSeconds * float64(time.Second)); wait >= time.Second {
		parts = append(parts, "waited "+term.FormatDuration(wait))
	}
	if u.Simulated {
		parts = append(parts, "simulated")
	}
	return strings.Join(parts, ", ")
}
