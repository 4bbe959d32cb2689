package mps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
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
	// maxFailures is how many probes in a row may fail before a daemon that may have clients is replaced,
	// which ends them.
	maxFailures = 3
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
	// serverErr is why the last server that the daemon started ended, and serverFailedAt when that was
	// seen; zero if none failed.
	serverErr      error
	serverFailedAt time.Time

	// checkedBytes is how much of the output keepRunning has checked.
	checkedBytes int64
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

func (d *controlDaemon) startKeeping() {
	ctx, cancel := context.WithCancelCause(context.Background())
	d.cancel = cancel
	go func() {
		defer close(d.ended)
		d.keepRunning(ctx)
	}()
}

// stopDaemon ends the daemon and returns once it has ended.
func (d *controlDaemon) stopDaemon() error {
	d.cancel(errStop)
	<-d.ended
	if err := os.RemoveAll(d.sharedMemoryDir()); err != nil {
		return fmt.Errorf("remove shared memory of MPS: %w", err)
	}
	return nil
}

// leaveRunning stops keeping the daemon running, and leaves it running.
func (d *controlDaemon) leaveRunning() {
	d.cancel(errLeave)
	<-d.ended
}

// awaitReady returns once the daemon responds. It fails for some time after a server of the daemon has
// failed: clients could not connect.
func (d *controlDaemon) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.commandTimeout)
	defer cancel()
	d.mu.Lock()
	ready := d.ready
	d.mu.Unlock()
	select {
	case <-ready:
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.serverErr != nil && time.Since(d.serverFailedAt) < d.cfg.backoffMax {
			return fmt.Errorf("MPS server of device %s: %w", d.uuid, d.serverErr)
		}
		return nil
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		return fmt.Errorf("MPS control daemon of device %s: %w", d.uuid, d.lastErr)
	}
}

// recordProbe records whether the daemon responds; err is why it does not.
func (d *controlDaemon) recordProbe(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	up := d.lastErr == nil
	switch d.lastErr = err; {
	case err == nil && !up:
		close(d.ready)
	case err != nil && up:
		d.ready = make(chan struct{})
	}
}

// keepRunning starts the daemon, and restarts it after a pause whenever it died, until ctx
// ends. It takes over a daemon that an earlier process started.
func (d *controlDaemon) keepRunning(ctx context.Context) {
	for pause := d.cfg.backoffMin; ; {
		began := time.Now()
		err := d.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		d.recordProbe(err)
		if time.Since(began) > d.cfg.backoffMax {
			pause = d.cfg.backoffMin
		}
		d.log.WithError(err).WithField("retry_in", pause.String()).Error("MPS control daemon ended: its clients fail, and new clients wait")
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, d.cfg.backoffMax)
	}
}

// runOnce runs the daemon until it ends. It leaves no daemon behind, except after leaveRunning.
func (d *controlDaemon) runOnce(ctx context.Context) error {
	if d.findProcess() != 0 || d.probeDaemon(ctx) == nil { // started by an earlier process
		d.log.Info("MPS control daemon taken over")
		err := d.watchDaemon(ctx, nil, true)
		if !errors.Is(context.Cause(ctx), errLeave) {
			d.endDaemon(nil)
		}
		return err
	}
	if err := d.makeFolders(ctx); err != nil {
		return err
	}
	c, err := d.startProcess()
	if err != nil {
		return fmt.Errorf("start the MPS control daemon: %w", err)
	}
	d.log.WithField("pid", c.pid).Info("MPS control daemon started")
	err = d.watchDaemon(ctx, c.died, false)
	if errors.Is(context.Cause(ctx), errLeave) {
		return err
	}
	d.endDaemon(c.died)
	if text := d.lastOutput(); ctx.Err() == nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// makeFolders makes the daemon's folders. Only the daemon and its clients share the /dev/shm.
func (d *controlDaemon) makeFolders(ctx context.Context) error {
	if err := makePrivateFolder(d.cfg.sharedMemory); err != nil {
		return fmt.Errorf("shared memory of MPS: %w", err)
	}
	for _, dir := range []string{d.pipeDir(), d.logDir(), d.sharedMemoryDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make folder of MPS: %w", err)
		}
	}
	if err := os.Chmod(d.sharedMemoryDir(), 0o777|fs.ModeSticky); err != nil {
		return fmt.Errorf("open shared memory of MPS to its clients: %w", err)
	}
	return d.setExclusive(ctx)
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

func (d *controlDaemon) setExclusive(ctx context.Context) error {
	if !d.cfg.Exclusive {
		return nil
	}
	return d.setComputeMode(ctx, "EXCLUSIVE_PROCESS")
}

func (d *controlDaemon) setComputeMode(ctx context.Context, mode string) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.commandTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "nvidia-smi", "-i", d.uuid, "-c", mode).CombinedOutput(); err != nil {
		return fmt.Errorf("set compute mode %s of device %s: %w: %s", mode, d.uuid, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// watchDaemon probes the daemon until it ends, does not respond any more, or ctx ends. mayHaveClients is
// set for a daemon that was taken over. Clients end with their daemon, so one that may have clients is
// given up only if it is gone or several probes in a row get no response at all. Any other response is
// no reason: the daemon serves one control session at a time, and clients may change what it reports.
func (d *controlDaemon) watchDaemon(ctx context.Context, died <-chan struct{}, mayHaveClients bool) error {
	const quick = 50 * time.Millisecond // until the first response
	tick := time.NewTicker(min(quick, d.cfg.probeInterval))
	defer tick.Stop()
	failures, deadline := 0, time.Now().Add(d.cfg.commandTimeout)
	for {
		err := d.probeDaemon(ctx)
		if err != nil && mayHaveClients && d.isServingOther(err) {
			d.log.WithError(err).Debug("MPS control daemon is busy")
			err = nil
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			failures, mayHaveClients = 0, true
			tick.Reset(d.cfg.probeInterval)
			d.recordProbe(nil)
		case !mayHaveClients && time.Now().After(deadline):
			return err
		case mayHaveClients:
			if failures++; failures >= maxFailures || d.findProcess() == 0 {
				return err
			}
			d.log.WithError(err).WithField("failures", failures).Warn("MPS control daemon does not respond")
		}
		d.checkOutput()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-died:
			return errors.New("MPS control daemon ended")
		case <-tick.C:
		}
	}
}

// errNoResponse is wrapped by errors of commands that got no response in time.
var errNoResponse = errors.New("MPS control daemon does not respond")

// isServingOther reports whether the daemon runs and accepts connections although a probe failed: it
// refused the probe, as it does while another control session is open, and does not hang.
func (d *controlDaemon) isServingOther(err error) bool {
	if errors.Is(err, errNoResponse) || d.findProcess() == 0 {
		return false
	}
	c, err := net.DialTimeout("unixpacket", filepath.Join(d.pipeDir(), "control"), d.cfg.commandTimeout)
	if err != nil {
		return errors.Is(err, syscall.EAGAIN) // its queue of connections is full: it accepts none during a session
	}
	c.Close()
	return true
}

// probeDaemon returns an error unless the daemon responds with a number. Clients may change the number.
func (d *controlDaemon) probeDaemon(ctx context.Context) error {
	answer, err := d.runCommand(ctx, probeCommand)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseFloat(answer, 64); err != nil {
		return fmt.Errorf("MPS control daemon responds to %s with %.64q, want a number", probeCommand, answer)
	}
	return nil
}

// runCommand sends the daemon a command with the control program.
func (d *controlDaemon) runCommand(ctx context.Context, line string) (answer string, err error) {
	if _, err := os.Stat(d.pipeDir()); err != nil {
		return "", fmt.Errorf("call the MPS control daemon: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.commandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, d.cfg.program, d.cfg.arguments...)
	c.Env = d.buildEnvironment()
	c.Stdin = strings.NewReader(line + "\n")
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	text := strings.TrimSpace(string(out[:min(len(out), maxOutputBytes)]))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%w to %s: %w", errNoResponse, line, context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("call the MPS control daemon's %s: %w: %s", line, err, text)
	}
	return text, nil
}
