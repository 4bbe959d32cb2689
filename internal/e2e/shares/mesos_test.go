//go:build mesos

package shares

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/internal/testing/apachemesos"
)

// TestMesosSharesHold checks on Apache Mesos, with two agents of four GPUs and real processes, that roles and users receive what
// they are entitled to.
func TestMesosSharesHold(t *testing.T) {
	const agents, gpusEach = 2, 4
	program := buildProgram(t)
	if err := os.Chmod(filepath.Dir(program), 0o755); err != nil { // agents run it
		t.Fatal(err)
	}
	for _, c := range shareCases(agents * gpusEach) {
		if !c.mesos {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var flags []string
			if c.withoutMesosWeights {
				flags = append(flags, `--acls={"update_weights": [{"principals": {"type": "ANY"}, "roles": {"type": "NONE"}}]}`)
			}
			master := apachemesos.StartMaster(t, flags...).Addr
			for i := range agents {
				apachemesos.AgentProcess{Master: master, IP: fmt.Sprintf("127.0.0.%d", i+1), Flags: []string{
					"--isolation=cgroups/cpu,cgroups/mem,filesystem/linux", "--attributes=gpu_type:V100",
					fmt.Sprintf("--resources=cpus:16;mem:8192;disk:4096;gpus:%d;ports:[31000-31100]", gpusEach),
				}}.Start(t).AwaitReady(t)
			}
			settle, window := c.times(time.Minute, time.Minute)
			got, used := measureShares(t, runScheduler(t, &c, "http://"+master, program), &c, agents*gpusEach, settle, window)
			t.Logf("%s, %.0f %% of the GPUs held", formatShares(got), 100*used)
			compareShares(t, "Apache Mesos", got, c.want)
		})
	}
}
