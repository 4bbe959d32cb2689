package daemons

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"mesos-gpu/framework"
)

// TestExecFlag checks that commands in containers are enabled by default.
func TestExecFlag(t *testing.T) {
	for line, want := range map[string]bool{"": false, "--exec": false, "--exec=true": false, "--exec=false": true} {
		var a framework.APIConfig
		f := pflag.NewFlagSet("scheduler", pflag.ContinueOnError)
		addAPIFlags(f, &a)
		if err := f.Parse(strings.Fields(line)); err != nil || a.NoExec != want {
			t.Errorf("%q: off is %t, %v", line, a.NoExec, err)
		}
	}
}
