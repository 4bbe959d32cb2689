package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"mesos-gpu/internal/term"
)

// systemdNotifier reports a daemon's status to the systemd that started this process, for
// systemctl status. Without NOTIFY_SOCKET it does nothing.
type systemdNotifier struct {
	mu         sync.Mutex
	lastStatus string
	stopping   bool // ignore further statuses
}

// NewNotifier returns a notifier whose first status is the given text.
func NewNotifier(status string) *systemdNotifier {
	n := &systemdNotifier{}
	n.SetStatus(status)
	return n
}

// SetStatus notifies systemd of the status, unless it is the last one or the daemon stops.
func (n *systemdNotifier) SetStatus(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopping || text == n.lastStatus {
		return
	}
	n.lastStatus = text
	NotifySystemd(StatusLine(text))
}

// stopTimeout limits how long a daemon takes to stop, whatever a disk, a driver or another
// server does. What a daemon must remember is on disk at any time.
const stopTimeout = 5 * time.Second

// RunDaemon runs serve and notifies systemd when ctx ends. It returns an error if serve
// has not returned stopTimeout later; the caller must then exit.
func (n *systemdNotifier) RunDaemon(ctx context.Context, serve func(context.Context) error) error {
	defer context.AfterFunc(ctx, n.notifyStopping)()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stopTimeout):
		return fmt.Errorf("a part did not stop within %s: exit without it; nothing is lost", stopTimeout)
	}
}

func (n *systemdNotifier) notifyStopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	NotifySystemd(daemon.SdNotifyStopping, StatusLine("stopping"))
}

// NotifyReady notifies systemd that the daemon serves requests.
func (n *systemdNotifier) NotifyReady() { NotifySystemd(daemon.SdNotifyReady) }

// NotifySystemd sends assignments such as READY=1 to systemd. It ignores errors: the
// daemon works without systemd, and the log contains the same information.
func NotifySystemd(assignments ...string) {
	_, _ = daemon.SdNotify(false, strings.Join(assignments, "\n"))
}

// maxStatusSize limits the status line for systemctl, in bytes.
const maxStatusSize = 500

// userinfoPattern matches the user name and password in a URL.
var userinfoPattern = regexp.MustCompile(`//[^/\s"@]*@`)

// StatusLine returns a STATUS assignment of one line without passwords. Unlike the
// log, all users of the machine can read the status.
func StatusLine(text string) string {
	text = userinfoPattern.ReplaceAllString(text, "//…@")
	text = strings.NewReplacer("\n", "; ", "\t", " ").Replace(term.EscapeControls(text))
	if len(text) > maxStatusSize {
		text = text[:maxStatusSize] + "…"
	}
	return "STATUS=" + strings.ToValidUTF8(text, "")
}

// DescribeError returns the text, ": " and the error, or only the text if err is nil.
func DescribeError(text string, err error) string {
	if err == nil {
		return text
	}
	return text + ": " + err.Error()
}

// JoinClauses joins those of the clauses that are not empty.
func JoinClauses(clauses ...string) string {
	return strings.Join(slices.DeleteFunc(clauses, func(c string) bool { return c == "" }), "; ")
}
