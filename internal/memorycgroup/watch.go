package memorycgroup

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Watcher reads the usage of a cgroup whenever it runs out of memory, because the cgroup may be removed right after.
type Watcher struct {
	group  Group
	events *os.File
	done   chan struct{}

	mu   sync.Mutex
	last Usage
	// signals counts those of version 1: one each time the cgroup runs out of memory, and one when it is removed.
	signals uint64
}

// Watch starts a watcher. Close ends it.
func (g Group) Watch() (*Watcher, error) {
	open := g.openOOMEvents
	if g.files == version2 {
		open = g.openChanges
	}
	events, err := open()
	if err != nil {
		return nil, fmt.Errorf("watch memory cgroup: %w", err)
	}
	w := &Watcher{group: g, events: events, done: make(chan struct{})}
	go w.run()
	return w, nil
}

// openOOMEvents returns an eventfd that version 1 signals before it kills a process.
func (g Group) openOOMEvents() (*os.File, error) {
	control, err := os.Open(filepath.Join(g.dir, g.files.events))
	if err != nil {
		return nil, err
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := os.NewFile(uintptr(fd), "eventfd")
	registration := fmt.Sprintf("%d %d", fd, control.Fd())
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.event_control"), []byte(registration), 0); err != nil {
		events.Close()
		return nil, err
	}
	return events, nil
}

// openChanges returns an inotify file that version 2 makes readable when it counts an event.
func (g Group) openChanges() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	events := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(g.dir, g.files.events), unix.IN_MODIFY); err != nil {
		events.Close()
		return nil, err
	}
	return events, nil
}

func (w *Watcher) run() {
	defer close(w.done)
	events, err := w.events.SyscallConn()
	if err != nil {
		return // closed
	}
	for events.Read(w.readEvents) == nil { // until it is closed
		u, err := w.group.ReadUsage()
		if err != nil {
			continue // removed
		}
		w.mu.Lock()
		w.last = u
		w.mu.Unlock()
	}
}

// readEvents reads the events that have arrived, and returns false if there are none.
func (w *Watcher) readEvents(fd uintptr) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var buffer [4 << 10]byte
	n, err := unix.Read(int(fd), buffer[:])
	if n == 8 && w.group.files == version1 {
		w.signals += binary.NativeEndian.Uint64(buffer[:])
	}
	return err != unix.EAGAIN
}

// RanOut reports whether the cgroup has run out of memory. With version 1 it knows that also if the cgroup was removed
// before its usage could be read.
func (w *Watcher) RanOut() bool {
	if w == nil {
		return false
	}
	if events, err := w.events.SyscallConn(); err == nil {
		_ = events.Control(func(fd uintptr) { w.readEvents(fd) }) // those that run has not read yet; closed: there are none
	}
	present, err := w.group.ReadUsage()
	w.mu.Lock()
	defer w.mu.Unlock()
	ranOut := w.last.OOMKills > 0 || present.OOMKills > 0
	if w.group.files == version1 {
		ranOut = ranOut || w.last != Usage{} || w.signals > 1 || w.signals > 0 && err == nil
	}
	if ranOut && err == nil {
		w.last = present
	}
	return ranOut
}

// LastUsage returns the usage when the cgroup ran out of memory last, and false if it has not.
func (w *Watcher) LastUsage() (Usage, bool) {
	if w == nil {
		return Usage{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.last != Usage{}
}

// Close ends a watcher. It may be nil.
func (w *Watcher) Close() {
	if w != nil {
		_ = w.events.Close()
		<-w.done
	}
}
