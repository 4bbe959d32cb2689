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
	pipeVariable = "CUDA_MPS_PIPE_DIRECTORY"
	logVariable  = "CUDA_MPS_LOG_DIRECTORY"
	probeCommand = "get_default_active_thread_percentage"
	maxAnswer    = 4 << 10
)

// server is one device's control daemon, whoever started it. It is kept running
// from start until stop or leave.
type server struct {
	cfg  Config
	uuid string
	dir  string
	log  logrus.FieldLogger

	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when nobody keeps it any more
	gone   chan struct{} // closed by MPS when another may be started

	mu    sync.Mutex
	ready chan struct{} // closed while it answers
	last  error         // why it does not
}

// Causes of the end of a server's care.
var (
	errStop  = errors.New("stop")
	errLeave = errors.New("leave")
)

func newServer(cfg Config, uuid string) *server {
	return &server{
		cfg: cfg, uuid: uuid, dir: filepath.Join(cfg.Dir, uuid), log: cfg.Log.WithField("gpu", uuid),
		ended: make(chan struct{}), gone: make(chan struct{}), ready: make(chan struct{}), last: errors.New("it has not answered yet"),
	}
}

func (s *server) start() {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.ended)
		s.keep(ctx)
	}()
}

// stop ends the daemon, and returns once it is gone.
func (s *server) stop() error {
	s.cancel(errStop)
	<-s.ended
	if err := os.RemoveAll(s.shm()); err != nil {
		return fmt.Errorf("remove shared memory of MPS: %w", err)
	}
	return nil
}

// leave ends the care for a daemon that runs on.
func (s *server) leave() {
	s.cancel(errLeave)
	<-s.ended
}

// await returns once the daemon answers.
func (s *server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
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
		return fmt.Errorf("MPS control daemon of device %s: %w", s.uuid, s.last)
	}
}

// mark notes whether the daemon answers: err says why not.
func (s *server) mark(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.last == nil
	switch s.last = err; {
	case err == nil && !up:
		close(s.ready)
	case err != nil && up:
		s.ready = make(chan struct{})
	}
}

// keep starts the daemon, again after a pause whenever it died, until ctx ends.
// One that an earlier process left is taken over.
func (s *server) keep(ctx context.Context) {
	for pause := s.cfg.BackoffMin; ; {
		began := time.Now()
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mark(err)
		if time.Since(began) > s.cfg.BackoffMax {
			pause = s.cfg.BackoffMin
		}
		s.log.WithError(err).WithField("retry_in", pause.String()).Error("MPS control daemon ended: its clients fail, and new ones wait")
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, s.cfg.BackoffMax)
	}
}

// serve is one life of the daemon, and leaves none behind unless it is to.
func (s *server) serve(ctx context.Context) error {
	if s.probe(ctx) == nil { // of an earlier process
		s.log.Info("MPS control daemon taken over")
		err := s.watch(ctx, nil)
		if !errors.Is(context.Cause(ctx), errLeave) {
			s.end(nil)
		}
		return err
	}
	s.force() // one of before that does not answer
	if err := s.prepare(ctx); err != nil {
		return err
	}
	c, err := s.spawn()
	if err != nil {
		return fmt.Errorf("start the MPS control daemon: %w", err)
	}
	s.log.WithField("pid", c.pid).Info("MPS control daemon started")
	err = s.watch(ctx, c.died)
	if errors.Is(context.Cause(ctx), errLeave) {
		return err
	}
	s.end(c.died)
	if text, _ := os.ReadFile(s.output()); ctx.Err() == nil && len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(text[:min(len(text), maxAnswer)])))
	}
	return err
}

// prepare makes the daemon's folders. Its clients share /dev/shm with it, and
// with nobody else.
func (s *server) prepare(ctx context.Context) error {
	if err := private(s.cfg.SharedMemory); err != nil {
		return fmt.Errorf("shared memory of MPS: %w", err)
	}
	for _, dir := range []string{s.pipe(), s.logs(), s.shm()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder of MPS: %w", err)
		}
	}
	if err := os.Chmod(s.shm(), 0o777|fs.ModeSticky); err != nil {
		return fmt.Errorf("open shared memory of MPS to its clients: %w", err)
	}
	return s.exclusive(ctx)
}

// private makes a folder that other users do not enter, where they may make
// folders too.
func private(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; !info.IsDir() || int(owner) != os.Geteuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is %s of user %d and not a folder of user %d alone: remove it", dir, info.Mode(), owner, os.Geteuid())
	}
	return nil
}

func (s *server) exclusive(ctx context.Context) error {
	if !s.cfg.Exclusive {
		return nil
	}
	return s.mode(ctx, "EXCLUSIVE_PROCESS")
}

func (s *server) mode(ctx context.Context, mode string) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, s.cfg.SMI, "-i", s.uuid, "-c", mode).CombinedOutput(); err != nil {
		return fmt.Errorf("set compute mode %s of device %s: %w: %s", mode, s.uuid, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// watch probes the daemon until it dies, stops answering, or ctx ends.
func (s *server) watch(ctx context.Context, died <-chan struct{}) error {
	const quick = 50 * time.Millisecond // until it answers for the first time
	tick := time.NewTicker(min(quick, s.cfg.Every))
	defer tick.Stop()
	answered, deadline := false, time.Now().Add(s.cfg.Patience)
	for {
		err := s.probe(ctx)
		switch {
		case err == nil && !answered:
			answered = true
			tick.Reset(s.cfg.Every)
			s.mark(nil)
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

// probe wants a percentage of the daemon.
func (s *server) probe(ctx context.Context) error {
	answer, err := s.command(ctx, probeCommand)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseFloat(answer, 64); err != nil || n <= 0 || n > 100 {
		return fmt.Errorf("MPS control daemon answers %s with %.64q, want a percentage", probeCommand, answer)
	}
	return nil
}

// command has the control program ask the daemon.
func (s *server) command(ctx context.Context, line string) (answer string, err error) {
	if _, err := os.Stat(s.pipe()); err != nil {
		return "", fmt.Errorf("ask the MPS control daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	c := exec.CommandContext(ctx, s.cfg.Program, s.cfg.Arguments...)
	c.Env = s.environment()
	c.Stdin = strings.NewReader(line + "\n")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	text := strings.TrimSpace(string(out[:min(len(out), maxAnswer)]))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("MPS control daemon does not answer %s: %w", line, context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("ask the MPS control daemon %s: %w: %s", line, err, text)
	}
	return text, nil
}
