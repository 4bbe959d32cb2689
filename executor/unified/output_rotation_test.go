package unified

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/rotate"
)

// Output that another process appends is rotated within its limits, and the sandbox
// contains all of it.
func TestOutputIsRotated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sandbox := t.TempDir()
		own := filepath.Join(sandbox, "containers", "c")
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		agents, err := os.OpenFile(filepath.Join(own, "stdout"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer agents.Close()
		if err := os.WriteFile(filepath.Join(own, "stderr"), []byte("quiet\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := linkOutput(sandbox, "c"); err != nil {
			t.Fatal(err)
		}
		r := &nestedContainer{
			id:      mesos.ContainerID{Value: "c"},
			sandbox: sandbox,
			output:  &outputWatch{sandbox: sandbox, container: "c"},
			logs:    rotate.RotationLimits{Bytes: 10 << 10, Files: 3},
			log:     quiet(t),
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.rotateOutput(ctx); close(done) }()
		written := 0
		for round := range 4 {
			for range 3000 {
				n, err := fmt.Fprintf(agents, "%d\n", round)
				if err != nil {
					t.Fatal(err)
				}
				written += n
			}
			time.Sleep(rotateInterval + time.Second)
			size := 0
			for _, name := range []string{"stdout", "stdout.1", "stdout.2"} {
				text, err := os.ReadFile(filepath.Join(sandbox, name))
				if err != nil && round == 3 {
					t.Errorf("round %d: %v", round, err)
				}
				size += len(text)
			}
			if round < 2 && size != written {
				t.Errorf("round %d: %d bytes are there of %d", round, size, written)
			}
		}
		stop()
		<-done
		if info, err := os.Stat(filepath.Join(own, "stdout")); err != nil || info.Size() > 10<<10 {
			t.Errorf("stdout is larger than it may be (%v)", err)
		}
		for _, absent := range []string{"stdout.3", "stderr.1"} {
			if _, err := os.Lstat(filepath.Join(sandbox, absent)); !os.IsNotExist(err) {
				t.Errorf("%s: %v", absent, err)
			}
		}
	})
}
