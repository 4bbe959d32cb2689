package memorycgroup

import (
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
	buffer := make([]byte, 4<<10)
	for {
		if _, err := w.events.Read(buffer); err != nil {
			return // closed
		}
		u, err := w.group.ReadUsage()
		if err != nil {
			continue // removed
		}
		w.mu.Lock()
		w.last = u
		w.mu.Unlock()
	}
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
