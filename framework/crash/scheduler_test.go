package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
)

// settings are what a scheduler process is started with, as JSON.
type settings struct {
	Master, API, Journal, Executor string
	Logs                           string // the folder of its log
	Session                        time.Duration
	// Die is where it kills itself; later orders come by its standard input.
	Die point
}

// What a scheduler process says on its standard output, a line each.
const (
	saysUp    = "up"    // its API listens
	saysLeads = "leads" // it has read the journal and is going to schedule
	saysDies  = "dies"  // with the point: its last word
)

// runScheduler is cmd/mesos-gpu's scheduler, with short patience, that dies
// where it is told to. It ends in good order when its standard input does.
func runScheduler(args []string) error {
	var s settings
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return fmt.Errorf("parse settings: %w", err)
	}
	f := &fate{}
	f.order(s.Die)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
			var p point
			if json.Unmarshal(orders.Bytes(), &p) == nil {
				f.order(p)
			}
		}
	}()
	log := logrus.New() // to standard error
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, TimestampFormat: "15:04:05.000", FullTimestamp: true})
	in, err := framework.New(framework.Config{
		Master: s.Master, APIAddr: s.API, JournalPath: s.Journal, SessionTimeout: s.Session, ExecutorPath: s.Executor,
		Log: log, Ready: func(string) { say(saysUp) },
		WrapJournal: func(j journal.Journal) journal.Journal { return doomed{Journal: j, fate: f} },
		Sched: sched.Config{
			LaunchTimeout: time.Second, KillRetry: 500 * time.Millisecond, ReconcileRetry: time.Second,
			ReviveEvery: 50 * time.Millisecond, HoldOffers: time.Second,
			// A task is lost as often as its scheduler dies.
			RetryDelay: time.Millisecond, RetryDelayMax: time.Millisecond, MaxAttempts: 1000,
		},
	})
	if err != nil {
		return err
	}
	return in.Run(ctx)
}

// say writes at once: the next moment may be the last.
func say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

// doomed is a journal whose process may die around a Commit.
type doomed struct {
	journal.Journal
	fate *fate
}

func (d doomed) Load(ctx context.Context) (journal.Contents, error) {
	all, err := d.Journal.Load(ctx)
	if err == nil {
		say(saysLeads)
	}
	return all, err
}

func (d doomed) Commit(ctx context.Context, c journal.Change) error {
	p, now := d.fate.strikes(c)
	if now && p.When == before {
		time.Sleep(p.Delay) // whoever acts or answers too early has the time to
		die(p)
	}
	err := d.Journal.Commit(ctx, c)
	if err == nil && now && p.When == after {
		die(p)
	}
	if err == nil && now {
		time.AfterFunc(p.Delay, func() { die(p) })
	}
	return err
}

// die is what the kernel does to a process at a power cut, but for the disk.
func die(p point) {
	say(saysDies + " " + p.String())
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // there is no way not to
	select {}
}

// fate knows where the process dies.
type fate struct {
	mu   sync.Mutex
	next point // none if When is ""
	seen int
}

// order replaces the point; the zero one lets the process live.
func (f *fate) order(p point) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.seen = p, 0
	if p.When == anytime {
		time.AfterFunc(p.Delay, func() { die(p) })
	}
}

// strikes reports whether the process dies at that change.
func (f *fate) strikes(c journal.Change) (point, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range kinds {
		if k.name == f.next.Kind && k.is(c) {
			f.seen++
			return f.next, f.seen == f.next.Nth
		}
	}
	return f.next, false
}
