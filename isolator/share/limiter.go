// Package share manages devices that several tasks share: which devices of a
// machine are shared and how much of each is advertised (ModeStore), and how
// shares are enforced (Limiter). It decides when a device may change between
// whole and shared. It does not allocate shares; package allocation does.
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

// AutoMethod selects the strongest method that works for each of the machine's
// devices.
const AutoMethod = "auto"

// Limiter enforces shares of devices. Its methods may be called concurrently.
type Limiter interface {
	Method() gpu.EnforcementMethod
	// CheckDevice returns an error if this machine cannot enforce shares of
	// the device.
	CheckDevice(ctx context.Context, d gpu.Device) error
	// AdmitContainer starts to enforce a container's shares, and returns what
	// its processes need for that. A repeated call changes nothing, or changes
	// the shares if the method supports that. If it returns an error, the
	// container must not start.
	AdmitContainer(ctx context.Context, container string, shares []gpu.DeviceShare) (LimitSetup, error)
	// ReadUsage returns what an admitted container uses of its shares; nil if
	// the method measures nothing.
	ReadUsage(container string) ([]ShareUsage, error)
	// ReleaseContainer removes a container whose processes have ended. It
	// ignores an unknown container.
	ReleaseContainer(ctx context.Context, container string) error
}

// LimitSetup contains the settings of a container's processes that enforce its
// shares.
type LimitSetup struct {
	Mounts      []LimitMount      `json:"mounts"`
	Environment map[string]string `json:"environment"`
	// OwnRootfs means that processes in the host's file system are not
	// limited.
	OwnRootfs bool `json:"-"`
	// WholeDevices are the UUIDs of devices of which the container has all.
	// Nothing limits it there.
	WholeDevices []string `json:"-"`
}

// LimitMount is a bind mount of the host's Source at the container's Target.
type LimitMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}

// ShareUsage is the usage of one share.
type ShareUsage struct {
	UUID          string
	MemLimitBytes int64
	// Cores is the limit in percent of the device; 0 means none.
	Cores int
	// MemUsedBytes and Throttled, the total time for which processes were
	// delayed, are valid if Measured is set.
	Measured     bool
	MemUsedBytes int64
	Throttled    time.Duration
}

// LimitContainer admits a container to l. It logs a warning if l does not
// enforce a share.
func LimitContainer(ctx context.Context, l Limiter, log logrus.FieldLogger, container string, shares []gpu.DeviceShare) (LimitSetup, error) {
	setup, err := l.AdmitContainer(ctx, container, shares)
	if err != nil {
		return LimitSetup{}, fmt.Errorf("enforce shares of container %s by %s: %w", container, l.Method(), err)
	}
	if l.Method() == gpu.NotEnforced && len(shares) > len(setup.WholeDevices) {
		log.WithField("container", container).Warn(UnlimitedWarning)
	}
	return setup, nil
}

// ChooseLimiter returns the limiter of a method, or with AutoMethod the first
// one, in the order of gpu.EnforcementMethods, that works for all of the
// devices. The error gives the reason for each method.
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
		return nil, fmt.Errorf("unknown share limit %q: use %s or one of %v", method, AutoMethod, gpu.EnforcementMethods())
	}
	return nil, fmt.Errorf("enforce shares of this machine's GPUs: %s", strings.Join(reasons, "; "))
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
