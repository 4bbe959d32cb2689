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

// processSettings are what a scheduler process is started with, as JSON.
type processSettings struct {
	Master, API, Journal, Executor string
	Logs                           string // the folder of its log
	Session                        time.Duration
	// Die is where it kills itself; later orders come by its standard input.
	Die crashPoint
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
	var s processSettings
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return fmt.Errorf("parse settings: %w", err)
	}
	f := &crashTrigger{}
	f.setPoint(s.Die)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
			var p crashPoint
			if json.Unmarshal(orders.Bytes(), &p) == nil {
				f.setPoint(p)
			}
		}
	}()
	log := logrus.New() // to standard error
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, TimestampFormat: "15:04:05.000", FullTimestamp: true})
	in, err := framework.New(framework.SchedulerConfig{
		Master: s.Master, APIAddr: s.API, JournalPath: s.Journal, SessionTimeout: s.Session, ExecutorPath: s.Executor,
		Log: log, Ready: func(string) { printLine(saysUp) },
		WrapJournal: func(j journal.Journal) journal.Journal { return crashingJournal{Journal: j, fate: f} },
		Sched: sched.SchedulerSettings{
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

// printLine writes at once: the next moment may be the last.
func printLine(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

// crashingJournal is a journal whose process may die around a Commit.
type crashingJournal struct {
	journal.Journal
	fate *crashTrigger
}

func (d crashingJournal) Load(ctx context.Context) (journal.JournalContents, error) {
	all, err := d.Journal.Load(ctx)
	if err == nil {
		printLine(saysLeads)
	}
	return all, err
}

func (d crashingJournal) Commit(ctx context.Context, c journal.Change) error {
	p, now := d.fate.crashesAt(c)
	if now && p.When == before {
		time.Sleep(p.Delay) // whoever acts or answers too early has the time to
		killSelf(p)
	}
	err := d.Journal.Commit(ctx, c)
	if err == nil && now && p.When == after {
		killSelf(p)
	}
	if err == nil && now {
		time.AfterFunc(p.Delay, func() { killSelf(p) })
	}
	return err
}

// killSelf is what the kernel does to a process at a power cut, but for the disk.
func killSelf(p crashPoint) {
	printLine(saysDies + " " + p.String())
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // there is no way not to
	select {}
}

// crashTrigger knows where the process dies.
type crashTrigger struct {
	mu   sync.Mutex
	next crashPoint // none if When is ""
	seen int
}

// setPoint replaces the point; the zero one lets the process live.
func (f *crashTrigger) setPoint(p crashPoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.seen = p, 0
	if p.When == anytime {
		time.AfterFunc(p.Delay, func() { killSelf(p) })
	}
}

// crashesAt reports whether the process dies at that change.
func (f *crashTrigger) crashesAt(c journal.Change) (crashPoint, bool) {
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
