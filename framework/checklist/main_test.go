package checklist

import (
	"testing"

	"mesos-gpu/internal/testing/reexec"
)

// TestMain lets agents start the test binary as the executor.
func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(nil)})
}
