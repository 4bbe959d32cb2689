package unified

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/outputtimes"
	"mesos-gpu/internal/outputindex"
)

const (
	// sizePollInterval is the interval between two looks at the files where the kernel does
	// not notify of writes.
	sizePollInterval = 200 * time.Millisecond
	// maxSettleTries limits how often the files are looked at again because the task writes
	// meanwhile.
	maxSettleTries = 50
	// maxSplitBytes limits the new output whose lines are counted to find the order of writes.
	maxSplitBytes = 64 << 10
)

// outputWatch records when the nested container writes its output. The agent writes the
// files, so the times are those at which the kernel notifies of the writes.
type outputWatch struct {
	sandbox, container string
	log                logrus.FieldLogger

	// mu also protects the files' starts against rotations at the same time.
	mu     sync.Mutex
	times  *outputtimes.TimeRecorder
	ends   outputindex.Positions
	starts outputindex.Positions

	// notify is the inotify descriptor, nil if none exists. watches are its watches by path
	// below the sandbox.
	notify  *os.File
	watches map[int32]string
	// stop ends the goroutine that records, which closes done at its end.
	stop context.CancelFunc
	done chan struct{}
}

// watchOutput starts to record. It is called before the container is launched, so that the
// first lines are noticed, and ends with close. An error costs the order of the output, so
// it is only logged. With poll it does not use notifications.
func watchOutput(sandbox, container string, poll bool, log logrus.FieldLogger) *outputWatch {
	w := &outputWatch{sandbox: sandbox, container: container, log: log, watches: map[int32]string{}, done: make(chan struct{})}
	var err error
	if w.times, err = outputtimes.Create(sandbox); err != nil {
		log.WithError(err).Warn("the output's times and order are not recorded")
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	if poll {
		go w.pollSizes(ctx)
		return w
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		log.WithError(err).Debug("times of output are recorded by polling")
		go w.pollSizes(ctx)
		return w
	}
	w.notify = os.NewFile(uintptr(fd), "inotify")
	w.addWatches()
	go w.followNotifications()
	return w
}

// close records what was written last. The container has ended.
func (w *outputWatch) close() {
	w.stop()
	if w.notify != nil {
		_ = w.notify.SetReadDeadline(time.Now())
	}
	<-w.done
	w.recordWrites(nil, nil)
	if w.times != nil {
		_ = w.times.Close()
	}
}

// addWatches watches the folder of the container, or the parts of its path that exist. A
// folder may appear before its watch exists, so the next part is always tried.
func (w *outputWatch) addWatches() {
	for _, folder := range []string{".", "containers", filepath.Join("containers", w.container)} {
		mask := uint32(unix.IN_CREATE | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW)
		if strings.HasSuffix(folder, w.container) {
			mask |= unix.IN_MODIFY
		}
		raw, err := w.notify.SyscallConn() // Fd would make the file block
		if err != nil {
			return
		}
		id := -1
		_ = raw.Control(func(fd uintptr) { id, err = unix.InotifyAddWatch(int(fd), filepath.Join(w.sandbox, folder), mask) })
		if err != nil || id < 0 {
			return
		}
		w.watches[int32(id)] = folder
	}
}

// followNotifications records writes until close.
func (w *outputWatch) followNotifications() {
	defer close(w.done)
	defer w.notify.Close()
	raw, err := w.notify.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 16<<10)
	for {
		n, err := w.notify.Read(buffer)
		w.recordWrites(w.parseNotifications(nil, buffer[:max(0, n)]), func() []outputindex.Stream {
			more := 0
			_ = raw.Control(func(fd uintptr) { more, _ = unix.Read(int(fd), buffer) })
			return w.parseNotifications(nil, buffer[:max(0, more)])
		})
		if err != nil {
			return // stopped
		}
	}
}

// parseNotifications appends the streams that were written, in order and each once for
// writes in a row. It watches folders that were created.
func (w *outputWatch) parseNotifications(writers []outputindex.Stream, events []byte) []outputindex.Stream {
	for len(events) >= unix.SizeofInotifyEvent {
		id, mask := int32(binary.NativeEndian.Uint32(events)), binary.NativeEndian.Uint32(events[4:])
		end := min(len(events), unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(events[12:])))
		name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00"))
		events = events[end:]
		inContainer := strings.HasSuffix(w.watches[id], w.container)
		if !inContainer && mask&unix.IN_CREATE != 0 && (name == "containers" || name == w.container) {
			w.addWatches()
			continue
		}
		for _, s := range outputindex.Streams() {
			if inContainer && mask&unix.IN_MODIFY != 0 && name == s.String() && (len(writers) == 0 || writers[len(writers)-1] != s) {
				writers = append(writers, s)
			}
		}
	}
	return writers
}

// pollSizes records writes without notifications.
func (w *outputWatch) pollSizes(ctx context.Context) {
	defer close(w.done)
	tick := time.NewTicker(sizePollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.recordWrites(nil, nil)
		case <-ctx.Done():
			return
		}
	}
}

// openStream opens a file of the container's output. The task may have replaced it.
func (w *outputWatch) openStream(s outputindex.Stream) (*os.File, int64, error) {
	root, err := os.OpenRoot(w.sandbox)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	f, err := root.OpenFile(nestedPath(w.container, s.String()), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (w *outputWatch) readSizes() (sizes outputindex.Positions) {
	for _, s := range outputindex.Streams() {
		if f, size, err := w.openStream(s); err == nil {
			f.Close()
			sizes[s] = size
		}
	}
	return sizes
}

// recordWrites records the present sizes. If both streams have grown, writers is the order
// of their writes. readMore, if not nil, returns the writes that were noticed meanwhile.
func (w *outputWatch) recordWrites(writers []outputindex.Stream, readMore func() []outputindex.Stream) {
	if w.times == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	sizes := w.readSizes()
	for range maxSettleTries { // until the notifications and the sizes belong together
		if readMore == nil {
			break
		}
		more := readMore()
		again := w.readSizes()
		if len(more) == 0 && again == sizes {
			break
		}
		writers, sizes = slices.Compact(append(writers, more...)), again
	}
	before := w.ends
	for s, size := range sizes {
		w.ends[s] = max(before[s], w.starts[s]+size)
	}
	for _, ends := range w.splitWrites(before, writers) {
		if err := w.times.Record(ends, w.starts); err != nil {
			w.log.WithError(err).Debug("cannot record the time of output")
		}
	}
}

// splitWrites returns the ends after each write, the last ones being w.ends. A program
// usually writes line by line where it changes between the streams, so each of a stream's
// writes gets a line, and the last one all that is left.
func (w *outputWatch) splitWrites(before outputindex.Positions, writers []outputindex.Stream) []outputindex.Positions {
	if w.ends[outputindex.Stdout] == before[outputindex.Stdout] || w.ends[outputindex.Stderr] == before[outputindex.Stderr] {
		return []outputindex.Positions{w.ends}
	}
	lines := [2][]int64{w.lineEnds(outputindex.Stdout, before), w.lineEnds(outputindex.Stderr, before)}
	var all []outputindex.Positions
	ends := before
	for i, s := range writers {
		switch {
		case !slices.Contains(writers[i+1:], s):
			ends[s] = w.ends[s]
		case len(lines[s]) > 0:
			ends[s], lines[s] = lines[s][0], lines[s][1:]
		}
		all = append(all, ends)
	}
	return append(all, w.ends)
}

// lineEnds returns the ends of a stream's new lines, or nil if there is too much new output.
func (w *outputWatch) lineEnds(s outputindex.Stream, before outputindex.Positions) (ends []int64) {
	length := w.ends[s] - before[s]
	if length > maxSplitBytes {
		return nil
	}
	f, _, err := w.openStream(s)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, before[s]-w.starts[s], length))
	if err != nil {
		return nil
	}
	at := before[s]
	for line := range bytes.Lines(text) {
		at += int64(len(line))
		ends = append(ends, at)
	}
	return ends
}

// rotate calls rotateFile, which returns by how much it has cut the head of a stream's file.
func (w *outputWatch) rotate(s outputindex.Stream, rotateFile func() (int64, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	removed, err := rotateFile()
	if removed == 0 {
		return err
	}
	w.starts[s] += removed
	w.ends[s] = max(w.ends[s], w.starts[s])
	if w.times != nil {
		err = errors.Join(err, w.times.Record(w.ends, w.starts))
	}
	return err
}
