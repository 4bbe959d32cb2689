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

// Auto is the strongest method that the machine can do for each of its devices.
const Auto = "auto"

// Limiter holds containers to their parts of devices. Its methods may be
// called at the same time.
type Limiter interface {
	Method() gpu.Method
	// Check tells why this machine cannot hold tasks to parts of that device.
	Check(ctx context.Context, d gpu.Device) error
	// Admit has a container's parts held to from now on, and tells what its
	// processes need for that. Called again it is as before, or with other
	// parts changes them as far as the method can. The error says why no limit
	// can be had: the container must not start.
	Admit(ctx context.Context, container string, parts []gpu.Part) (Setup, error)
	// Usage is what is known of an admitted container's parts; nil where the
	// method measures nothing.
	Usage(container string) ([]Usage, error)
	// Release forgets a container whose processes are gone. One that is not
	// known is no error.
	Release(ctx context.Context, container string) error
}

// Setup is what a container's processes need so that they are held to their
// parts.
type Setup struct {
	Mounts      []Mount           `json:"mounts"`
	Environment map[string]string `json:"environment"`
	// OwnRootfs tells that nothing holds a process whose file system is the
	// host's.
	OwnRootfs bool `json:"-"`
}

// Mount is a bind mount of the host's Source at the container's Target.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}

// Usage is one part as it is used.
type Usage struct {
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

// Hold has a container held to its parts by l. That nothing holds it is logged.
func Hold(ctx context.Context, l Limiter, log logrus.FieldLogger, container string, parts []gpu.Part) (Setup, error) {
	if l.Method() == gpu.NotHeld {
		log.WithField("container", container).Warn(Unlimited)
	}
	setup, err := l.Admit(ctx, container, parts)
	if err != nil {
		return Setup{}, fmt.Errorf("hold container %s to its parts by %s: %w", container, l.Method(), err)
	}
	return setup, nil
}

// Choose finds the limiter of a method, or with Auto the first of them, in the
// order of gpu.Methods, that can hold each of the devices. The error of a
// method that cannot says why.
func Choose(ctx context.Context, method string, limiters []Limiter, devices []gpu.Device) (Limiter, error) {
	var reasons []string
	for _, m := range gpu.Methods() {
		if method != Auto && method != string(m) {
			continue
		}
		l, err := usable(ctx, m, limiters, devices)
		if err == nil {
			return l, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", m, err))
	}
	if len(reasons) == 0 {
		return nil, fmt.Errorf("share limit %q is none: give %s or one of %v", method, Auto, gpu.Methods())
	}
	return nil, fmt.Errorf("hold tasks to parts of this machine's GPUs: %s", strings.Join(reasons, "; "))
}

func usable(ctx context.Context, m gpu.Method, limiters []Limiter, devices []gpu.Device) (Limiter, error) {
	for _, l := range limiters {
		if l.Method() != m {
			continue
		}
		for _, d := range devices {
			if err := l.Check(ctx, d); err != nil {
				return nil, fmt.Errorf("device %s: %w", d.UUID, err)
			}
		}
		return l, nil
	}
	return nil, errors.New("not in this build")
}
