package daemons

import (
	"testing"

	"github.com/spf13/pflag"
)

// Sizes have the units of job files. Numbers without a unit are MiB.
func TestSizeFlag(t *testing.T) {
	for text, want := range map[string]int64{"20480": 20480, "20GiB": 20480, "1KiB": 1, "20G": 0, "0": 0, "-1": 0} {
		var mib int64
		f := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
		addSizeFlag(f, &mib, "size", 7, "")
		if err := f.Parse([]string{"--size", text}); mib != want || (err == nil) != (want > 0) {
			t.Errorf("%s: got %d, %v, want %d", text, mib, err, want)
		}
	}
}
