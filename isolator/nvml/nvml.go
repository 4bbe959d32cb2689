// Package nvml finds out what GPUs a machine has. It is the only package that
// loads NVIDIA's management library, at run time, so that one binary serves
// machines with a driver and without. It decides nothing about containers and
// changes no setting of a device.
package nvml

import (
	"errors"

	"github.com/sirupsen/logrus"
)

// ErrNoDriver is returned by Discover where libnvidia-ml.so.1 cannot be
// loaded or says that no driver is. The error around it gives the reason on
// one line.
var ErrNoDriver = errors.New("no NVIDIA driver")

// Config says where to look. The zero value serves production.
type Config struct {
	// Library is the file to load; empty leaves the choice to the loader:
	// "libnvidia-ml.so.1" on its path.
	Library string
	// SysRoot is where sysfs is; empty means /sys.
	SysRoot string
	// Log hears of devices that had to be left out.
	Log logrus.FieldLogger
}

func (c Config) withDefaults() Config {
	if c.Library == "" {
		c.Library = "libnvidia-ml.so.1"
	}
	if c.SysRoot == "" {
		c.SysRoot = "/sys"
	}
	if c.Log == nil {
		log := logrus.New()
		log.SetLevel(logrus.PanicLevel)
		c.Log = log
	}
	return c
}
