// Package share has the words for devices that several tasks hold parts of:
// which of a machine's are shared and how much of each is advertised (Forms),
// and what holds tasks to their parts (Limiter). It decides when a device may
// change from one form to the other; whose a part is, the books of package
// ledger decide.
package share

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
)

// AutoMethod is the strongest method that the machine can do for each of its devices.
const AutoMethod = "auto"

// Limiter holds containers to their parts of devices. Its methods may be
// called at the same time.
type Limiter interface {
	Method() gpu.EnforcementMethod
	// CheckDevice tells why this machine cannot hold tasks to parts of that device.
	CheckDevice(ctx context.Context, d gpu.Device) error
	// AdmitContainer has a container's parts held to from now on, and tells what its
	// processes need for that. Called again it is as before, or with other
	// parts changes them as far as the method can. The error says why no limit
	// can be had: the container must not start.
	AdmitContainer(ctx context.Context, container string, parts []gpu.DeviceShare) (LimitSetup, error)
	// ReadUsage is what is known of an admitted container's parts; nil where the
	// method measures nothing.
	ReadUsage(container string) ([]ShareUsage, error)
	// ReleaseContainer forgets a container whose processes are gone. One that is not
	// known is no error.
	ReleaseContainer(ctx context.Context, container string) error
}

// LimitSetup is what a container's processes need so that they are held to their
// parts.
type LimitSetup struct {
	Mounts      []LimitMount      `json:"mounts"`
	Environment map[string]string `json:"environment"`
	// OwnRootfs tells that nothing holds a process whose file system is the
	// host's.
	OwnRootfs bool `json:"-"`
}

// LimitMount is a bind mount of the host's Source at the container's Target.
type LimitMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}

// ShareUsage is one part as it is used.
type ShareUsage struct {
	UUID          string
	MemLimitBytes int64
	// Cores is the limit in percent of the device, 0 for none.
	Cores int
	// MemUsedBytes and Throttled, the time for which processes were kept
	// waiting so far, are known where Measured is set.
	Measured     bool
	MemUsedBytes int64
	Throttled    time.Duration
}

// LimitContainer has a container held to its parts by l. That nothing holds it is logged.
func LimitContainer(ctx context.Context, l Limiter, log logrus.FieldLogger, container string, parts []gpu.DeviceShare) (LimitSetup, error) {
	if l.Method() == gpu.NotEnforced {
		log.WithField("container", container).Warn(UnlimitedWarning)
	}
	setup, err := l.AdmitContainer(ctx, container, parts)
	if err != nil {
		return LimitSetup{}, fmt.Errorf("hold container %s to its parts by %s: %w", container, l.Method(), err)
	}
	return setup, nil
}

// ChooseLimiter finds the limiter of a method, or with Auto the first of them, in the
// order of gpu.EnforcementMethods, that can hold each of the devices. The error of a
// method that cannot says why.
func ChooseLimiter(ctx context.Context, method string, limiters []Limiter, devices []gpu.Device) (Limiter, error) {
	var reasons []string
	for _, m := range gpu.EnforcementMethods() {
		if method != AutoMethod && method != string(m) {
			continue
		}
		l, err := findUsable(ctx, m, limiters, devices)
		if err == nil {
			return l, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", m, err))
	}
	if len(reasons) == 0 {
		return nil, fmt.Errorf("share limit %q is none: give %s or one of %v", method, AutoMethod, gpu.EnforcementMethods())
	}
	return nil, fmt.Errorf("hold tasks to parts of this machine's GPUs: %s", strings.Join(reasons, "; "))
}

func findUsable(ctx context.Context, m gpu.EnforcementMethod, limiters []Limiter, devices []gpu.Device) (Limiter, error) {
	for _, l := range limiters {
		if l.Method() != m {
			continue
		}
		for _, d := range devices {
			if err := l.CheckDevice(ctx, d); err != nil {
				return nil, fmt.Errorf("device %s: %w", d.UUID, err)
			}
		}
		return l, nil
	}
	return nil, errors.New("not in this build")
}
