package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
)

const (
	pipeVariable   = "CUDA_MPS_PIPE_DIRECTORY"
	logVariable    = "CUDA_MPS_LOG_DIRECTORY"
	probeCommand   = "get_default_active_thread_percentage"
	maxOutputBytes = 4 << 10
)

// controlDaemon is one device's control daemon, started by this or an earlier process. It is
// kept running from startKeeping until stopDaemon or leaveRunning.
type controlDaemon struct {
	cfg ControlConfig
	// uuid is the device's. dir has the daemon's pipes and logs.
	uuid string
	dir  string
	log  logrus.FieldLogger

	// cancel ends keepRunning. Its cause, errStop or errLeave, decides whether
	// the daemon ends too.
	cancel context.CancelCauseFunc
	// ended is closed when the daemon is no longer kept running.
	ended chan struct{}
	// removed is closed by Limiter when another daemon may be started.
	removed chan struct{}

	mu sync.Mutex
	// ready is closed while the daemon responds. When it stops responding, an
	// open channel replaces it.
	ready chan struct{}
	// lastErr is why the daemon does not respond; nil while it does.
	lastErr error
}

// Causes for which keepRunning ends.
var (
	errStop  = errors.New("stop")
	errLeave = errors.New("leave")
)

func newControlDaemon(cfg ControlConfig, uuid string) *controlDaemon {
	return &controlDaemon{
		cfg: cfg, uuid: uuid, dir: filepath.Join(cfg.Dir, uuid), log: cfg.Log.WithField("gpu", uuid),
		ended: make(chan struct{}), removed: make(chan struct{}), ready: make(chan struct{}), lastErr: errors.New("it has not responded yet"),
	}
}

func (s *controlDaemon) startKeeping() {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.ended)
		s.keepRunning(ctx)
	}()
}

// stopDaemon ends the daemon and returns once it has ended.
func (s *controlDaemon) stopDaemon() error {
	s.cancel(errStop)
	<-s.ended
	if err := os.RemoveAll(s.sharedMemoryDir()); err != nil {
		return fmt.Errorf("remove shared memory of MPS: %w", err)
	}
	return nil
}

// leaveRunning stops keeping the daemon running, and leaves it running.
func (s *controlDaemon) leaveRunning() {
	s.cancel(errLeave)
	<-s.ended
}

// awaitReady returns once the daemon responds.
func (s *controlDaemon) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
	defer cancel()
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		return fmt.Errorf("MPS control daemon of device %s: %w", s.uuid, s.lastErr)
	}
}

// recordProbe records whether the daemon responds; err is why it does not.
func (s *controlDaemon) recordProbe(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.lastErr == nil
	switch s.lastErr = err; {
	case err == nil && !up:
		close(s.ready)
	case err != nil && up:
		s.ready = make(chan struct{})
	}
}

// keepRunning starts the daemon, and restarts it after a pause whenever it died, until ctx
// ends. It takes over a daemon that an earlier process started.
func (s *controlDaemon) keepRunning(ctx context.Context) {
	for pause := s.cfg.BackoffMin; ; {
		began := time.Now()
		err := s.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		s.recordProbe(err)
		if time.Since(began) > s.cfg.BackoffMax {
			pause = s.cfg.BackoffMin
		}
		s.log.WithError(err).WithField("retry_in", pause.String()).Error("MPS control daemon ended: its clients fail, and new clients wait")
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, s.cfg.BackoffMax)
	}
}

// runOnce runs the daemon until it ends. It leaves no daemon behind, except after leaveRunning.
func (s *controlDaemon) runOnce(ctx context.Context) error {
	if s.probeDaemon(ctx) == nil { // started by an earlier process
		s.log.Info("MPS control daemon taken over")
		err := s.watchDaemon(ctx, nil)
		if !errors.Is(context.Cause(ctx), errLeave) {
			s.endDaemon(nil)
		}
		return err
	}
	s.killDaemon() // a daemon of an earlier process that does not respond
	if err := s.makeFolders(ctx); err != nil {
		return err
	}
	c, err := s.startProcess()
	if err != nil {
		return fmt.Errorf("start the MPS control daemon: %w", err)
	}
	s.log.WithField("pid", c.pid).Info("MPS control daemon started")
	err = s.watchDaemon(ctx, c.died)
	if errors.Is(context.Cause(ctx), errLeave) {
		return err
	}
	s.endDaemon(c.died)
	if text, _ := os.ReadFile(s.outputFile()); ctx.Err() == nil && len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(text[:min(len(text), maxOutputBytes)])))
	}
	return err
}

// makeFolders makes the daemon's folders. Only the daemon and its clients share the /dev/shm.
func (s *controlDaemon) makeFolders(ctx context.Context) error {
	if err := makePrivateFolder(s.cfg.SharedMemory); err != nil {
		return fmt.Errorf("shared memory of MPS: %w", err)
	}
	for _, dir := range []string{s.pipeDir(), s.logDir(), s.sharedMemoryDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder of MPS: %w", err)
		}
	}
	if err := os.Chmod(s.sharedMemoryDir(), 0o777|fs.ModeSticky); err != nil {
		return fmt.Errorf("open shared memory of MPS to its clients: %w", err)
	}
	return s.setExclusive(ctx)
}

// makePrivateFolder makes a folder that other users cannot enter, in a folder where they may
// create files.
func makePrivateFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; !info.IsDir() || int(owner) != os.Geteuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is %s of user %d and not a private folder of user %d: remove it", dir, info.Mode(), owner, os.Geteuid())
	}
	return nil
}

func (s *controlDaemon) setExclusive(ctx context.Context) error {
	if !s.cfg.Exclusive {
		return nil
	}
	return s.setComputeMode(ctx, "EXCLUSIVE_PROCESS")
}

func (s *controlDaemon) setComputeMode(ctx context.Context, mode string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, s.cfg.SMI, "-i", s.uuid, "-c", mode).CombinedOutput(); err != nil {
		return fmt.Errorf("set compute mode %s of device %s: %w: %s", mode, s.uuid, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// watchDaemon probes the daemon until it dies, stops responding, or ctx ends.
func (s *controlDaemon) watchDaemon(ctx context.Context, died <-chan struct{}) error {
	const quick = 50 * time.Millisecond // until the first response
	tick := time.NewTicker(min(quick, s.cfg.ProbeInterval))
	defer tick.Stop()
	answered, deadline := false, time.Now().Add(s.cfg.CommandTimeout)
	for {
		err := s.probeDaemon(ctx)
		switch {
		case err == nil && !answered:
			answered = true
			tick.Reset(s.cfg.ProbeInterval)
			s.recordProbe(nil)
		case err != nil && ctx.Err() == nil && (answered || time.Now().After(deadline)):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-died:
			return errors.New("MPS control daemon ended")
		case <-tick.C:
		}
	}
}

// probeDaemon returns an error unless the daemon responds with a percentage.
func (s *controlDaemon) probeDaemon(ctx context.Context) error {
	answer, err := s.runCommand(ctx, probeCommand)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseFloat(answer, 64); err != nil || n <= 0 || n > 100 {
		return fmt.Errorf("MPS control daemon responds to %s with %.64q, want a percentage", probeCommand, answer)
	}
	return nil
}

// runCommand sends the daemon a command with the control program.
func (s *controlDaemon) runCommand(ctx context.Context, line string) (answer string, err error) {
	if _, err := os.Stat(s.pipeDir()); err != nil {
		return "", fmt.Errorf("call the MPS control daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CommandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, s.cfg.Program, s.cfg.Arguments...)
	c.Env = s.buildEnvironment()
	c.Stdin = strings.NewReader(line + "\n")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	text := strings.TrimSpace(string(out[:min(len(out), maxOutputBytes)]))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("MPS control daemon does not respond to %s: %w", line, context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("call the MPS control daemon's %s: %w: %s", line, err, text)
	}
	return text, nil
}
