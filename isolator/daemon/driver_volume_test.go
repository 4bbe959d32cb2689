package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	logtest "github.com/sirupsen/logrus/hooks/test"
)

// The result of the volume check is logged once, and a missing volume is not checked.
func TestRepairVolume(t *testing.T) {
	here := func(context.Context) (string, error) { return "/volumes/nvidia_535", nil }
	for name, c := range map[string]struct {
		volume func(context.Context) (string, error)
		damage []string
		err    error
		want   []string
	}{
		"whole": {here, nil, nil, []string{"driver volume is ready"}},
		"repaired": {here, []string{"libcuda is torn"}, nil, []string{
			"driver volume is ready", "driver volume was damaged and is repaired damage=[libcuda is torn]",
		}},
		"beyond it": {here, []string{"libcuda is torn"}, errors.New("reinstall the driver"), []string{
			"driver volume is ready", "driver volume may be damaged damage=[libcuda is torn] reinstall the driver",
		}},
		"no volume": {noVolume, []string{"never read"}, nil, []string{"no driver volume: images that ask for the driver cannot be launched"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, hook := logtest.NewNullLogger()
				d := &Daemon{cfg: DaemonConfig{Log: log, DriverVolume: c.volume, RepairVolume: func(context.Context) ([]string, error) { return c.damage, c.err }}}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- d.makeDriverVolume(ctx) }()
				synctest.Wait()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if got := loggedMessages(hook); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// loggedMessages returns the log messages with the fields that this test checks.
func loggedMessages(hook *logtest.Hook) []string {
	var lines []string
	for _, e := range hook.AllEntries() {
		line := e.Message
		if damage, ok := e.Data["damage"]; ok {
			line += " damage=[" + strings.Join(damage.([]string), " ") + "]"
		}
		if err, ok := e.Data["error"].(error); ok && strings.Contains(line, "damage=") {
			line += " " + err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}
