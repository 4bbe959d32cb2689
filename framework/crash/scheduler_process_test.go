package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
)

// processSettings are the settings of a scheduler process, passed as JSON.
type processSettings struct {
	Master, API, Journal, Executor string
	Logs                           string // the folder of its log
	Session                        time.Duration
	// ClockOffset is how far the scheduler's clock is ahead of the machine's.
	ClockOffset time.Duration
	// Die is the first crash point; later ones arrive on standard input.
	Die crashPoint
}

// processOrder is a line that a scheduler process reads from its standard input. A nil
// field changes nothing.
type processOrder struct {
	Die         *crashPoint    `json:",omitempty"`
	ClockOffset *time.Duration `json:",omitempty"`
}

// Lines that a scheduler process writes to its standard output.
const (
	saysUp    = "up"    // the API listens
	saysLeads = "leads" // the journal is loaded and scheduling starts
	saysDies  = "dies"  // followed by the crash point; the last line
)

// runScheduler runs the scheduler of cmd/mesos-gpu with short timeouts. It kills itself at
// its crash point, and stops cleanly when its standard input ends.
func runScheduler(args []string) error {
	var s processSettings
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		return fmt.Errorf("parse settings: %w", err)
	}
	f := &crashTrigger{}
	f.setPoint(s.Die)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var ahead atomic.Int64
	ahead.Store(int64(s.ClockOffset))
	go func() {
		defer stop()
		for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
			var o processOrder
			if json.Unmarshal(orders.Bytes(), &o) != nil {
				continue
			}
			if o.Die != nil {
				f.setPoint(*o.Die)
			}
			if o.ClockOffset != nil {
				ahead.Store(int64(*o.ClockOffset))
			}
		}
	}()
	log := logrus.New() // writes to standard error
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, TimestampFormat: "15:04:05.000", FullTimestamp: true})
	in, err := framework.New(framework.SchedulerConfig{
		Master: s.Master, APIAddr: s.API, JournalPath: s.Journal, SessionTimeout: s.Session, ExecutorPath: s.Executor,
		Log: log, Ready: func(string) { printLine(saysUp) },
		Clock:       func() time.Time { return moveWallClock(time.Now(), time.Duration(ahead.Load())) },
		WrapJournal: func(j journal.Journal) journal.Journal { return crashingJournal{Journal: j, fate: f} },
		Sched: sched.SchedulerSettings{
			LaunchTimeout: time.Second, MaxLaunchDelay: 5 * time.Second, KillRetry: 500 * time.Millisecond, ReconcileRetry: time.Second,
			HoldOffers: time.Second,
			// A task may be lost each time its scheduler dies.
			RetryDelay: time.Millisecond, RetryDelayMax: time.Millisecond, MaxAttempts: 1000,
		},
	})
	if err != nil {
		return err
	}
	return in.Run(ctx)
}

// moveWallClock returns t as time.Now returns it on a machine whose clock is ahead: only the
// wall clock reading differs, not the monotonic one, which package time has no function for.
func moveWallClock(t time.Time, ahead time.Duration) time.Time {
	const nanosecondBits = 30 // below the seconds in the first word of a time with both readings
	*(*uint64)(unsafe.Pointer(&t)) += uint64(ahead/time.Second) << nanosecondBits
	return t
}

// printLine writes unbuffered because the process may die immediately afterwards.
func printLine(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

// crashingJournal is a journal whose process may kill itself around a Commit.
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
		time.Sleep(p.Delay) // exposes code that acts or answers before the Commit
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

// killSelf kills the process as a power failure would, except that written data survives.
func killSelf(p crashPoint) {
	printLine(saysDies + " " + p.String())
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail
	select {}
}

// crashTrigger holds the process's current crash point.
type crashTrigger struct {
	mu   sync.Mutex
	next crashPoint // no crash if When is ""
	seen int
	set  time.Time
}

// setPoint replaces the crash point; the zero one disables it.
func (f *crashTrigger) setPoint(p crashPoint) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next, f.seen, f.set = p, 0, time.Now()
	if p.When == anytime {
		time.AfterFunc(p.Delay, func() { killSelf(p) })
	}
}

// crashesAt reports whether the process must die at this change, and at which point. A process
// that waits for a requeue and sees none, since the job of the lost task was killed, dies at a
// launch instead, which loses another task.
func (f *crashTrigger) crashesAt(c journal.Change) (crashPoint, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next.Kind == "requeue" && time.Since(f.set) > requeueWait {
		f.next = crashPoint{When: after, Kind: "launch", Nth: 1}
	}
	for _, k := range changeKinds {
		if k.name == f.next.Kind && k.is(c) {
			f.seen++
			return f.next, f.seen == f.next.Nth
		}
	}
	return f.next, false
}
