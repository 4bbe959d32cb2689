package checklist

import (
	"testing"

	"mesos-gpu/internal/reexec"
)

// TestMain makes the test binary what agents start.
func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(nil)})
}
