package mps

import (
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/internal/testing/realdriver"
	"mesos-gpu/internal/testing/testneeds"
)

// NVIDIA's control daemon is started, keeps running while a user has a control session open and whatever default a client sets,
// and ends with its last container.
func TestRootRealDriverControlDaemon(t *testing.T) {
	testneeds.RequireRoot(t)
	for _, driver := range []string{"535", "550"} {
		t.Run(driver, func(t *testing.T) {
			_, root := realdriver.Find(t, driver)
			dir := t.TempDir()
			m := newTestLimiter(t, dir)
			m.cfg.program, m.cfg.arguments = filepath.Join(root, "usr/bin/nvidia-cuda-mps-control"), nil
			mustAdmit(t, m, "a", newShares(4096, 30))
			first, pipe := daemonPID(m), filepath.Join(dir, uuid, "pipe")
			keeps := func(when string) {
				t.Helper()
				d := m.daemons[uuid]
				for range maxFailures + 1 {
					before := probes(d)
					eventually(t, "another probe", func() bool { return probes(d) > before })
				}
				if now := daemonPID(m); now == 0 || now != first {
					t.Errorf("%s the daemon is %d, want %d still", when, now, first)
				}
			}
			keeps("at first")
			var stdin io.WriteCloser
			var ended chan error
			eventually(t, "the session is open", func() bool { // no probe has one
				session := exec.Command(m.cfg.program)
				session.Env = []string{"CUDA_MPS_PIPE_DIRECTORY=" + pipe}
				var err error
				if stdin, err = session.StdinPipe(); err != nil {
					t.Fatal(err)
				}
				if err := session.Start(); err != nil {
					t.Fatal(err)
				}
				ended = make(chan error, 1)
				go func() { ended <- session.Wait() }()
				select {
				case <-ended:
					return false
				case <-time.After(awaitedTimeout / 5):
					return true
				}
			})
			keeps("with an open session")
			if _, err := stdin.Write([]byte("set_default_active_thread_percentage 0.001\n")); err != nil {
				t.Error(err)
			}
			stdin.Close()
			<-ended // its exit code differs by driver
			keeps("with another default")
			if err := m.ReleaseContainer(t.Context(), "a"); err != nil || daemonPID(m) != 0 {
				t.Errorf("with no container left the daemon is %d: %v", daemonPID(m), err)
			}
			realdriver.Record(t, driver, realdriver.MPS, "", true)
		})
	}
}
