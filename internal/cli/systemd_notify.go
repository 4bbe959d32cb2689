package cli

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/term"
)

// systemdNotifier reports the daemon's state to the systemd that started this process,
// for systemctl status. It derives the state from log entries of all levels,
// and does nothing if systemd has set no NOTIFY_SOCKET.
type systemdNotifier struct {
	state DaemonState

	mu         sync.Mutex
	lastStatus string
	stopping   bool // ignore further log entries
}

// DaemonState derives a daemon's state from its log entries. String returns the
// state as one line for systemctl status.
type DaemonState interface {
	// update reports whether the entry concerned the state.
	update(e *logrus.Entry) bool
	fmt.Stringer
}

// NewNotifier returns a notifier and, if NOTIFY_SOCKET is set, attaches it to the log.
func (a *App) NewNotifier(log *logrus.Logger, c DaemonState) *systemdNotifier {
	n := &systemdNotifier{state: c, lastStatus: c.String()}
	if a.Getenv("NOTIFY_SOCKET") != "" {
		log.SetFormatter(levelFormatter{log.Formatter, log.Level})
		log.SetLevel(max(log.Level, logrus.InfoLevel))
		log.AddHook(n)
		NotifySystemd(StatusLine(n.lastStatus))
	}
	return n
}

// RunDaemon runs serve and notifies systemd when ctx ends.
func (n *systemdNotifier) RunDaemon(ctx context.Context, serve func(context.Context) error) error {
	defer context.AfterFunc(ctx, n.notifyStopping)()
	return serve(ctx)
}

func (n *systemdNotifier) notifyStopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	NotifySystemd(daemon.SdNotifyStopping, StatusLine("stopping"))
}

// Levels implements logrus.Hook.
func (n *systemdNotifier) Levels() []logrus.Level { return logrus.AllLevels }

func (n *systemdNotifier) Fire(e *logrus.Entry) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopping || !n.state.update(e) {
		return nil
	}
	if text := n.state.String(); text != n.lastStatus {
		n.lastStatus = text
		NotifySystemd(StatusLine(text))
	}
	return nil
}

// NotifyReady notifies systemd that the daemon serves requests.
func (n *systemdNotifier) NotifyReady() { NotifySystemd(daemon.SdNotifyReady) }

// NotifySystemd sends assignments such as READY=1 to systemd. It ignores errors: the
// daemon works without systemd, and the log contains the same information.
func NotifySystemd(assignments ...string) {
	_, _ = daemon.SdNotify(false, strings.Join(assignments, "\n"))
}

// MaxStatusSize limits the status line for systemctl, in bytes.
const MaxStatusSize = 500

// userinfoPattern matches the user name and password in a URL.
var userinfoPattern = regexp.MustCompile(`//[^/\s"@]*@`)

// StatusLine returns a STATUS assignment of one line without passwords. Unlike the
// log, all users of the machine can read the status.
func StatusLine(text string) string {
	text = userinfoPattern.ReplaceAllString(text, "//…@")
	text = strings.NewReplacer("\n", "; ", "\t", " ").Replace(term.EscapeControls(text))
	if len(text) > MaxStatusSize {
		text = text[:MaxStatusSize] + "…"
	}
	return "STATUS=" + strings.ToValidUTF8(text, "")
}

// levelFormatter omits the lines below a level.
type levelFormatter struct {
	logrus.Formatter
	level logrus.Level
}

func (u levelFormatter) Format(e *logrus.Entry) ([]byte, error) {
	if e.Level > u.level {
		return nil, nil
	}
	return u.Formatter.Format(e)
}

// SchedulerState is the DaemonState of a scheduler.
type SchedulerState struct{ zookeeper, role, master string }

const awaitsMaster = "waiting for a master"

func (s *SchedulerState) update(e *logrus.Entry) bool {
	switch e.Message {
	case "no connection to ZooKeeper":
		s.zookeeper = "waiting for ZooKeeper" + errorSuffix(e)
	case "connected to ZooKeeper":
		s.zookeeper = ""
	case "standing by":
		*s = SchedulerState{role: "standing by"}
	case "this scheduler stands by: tasks go on":
		*s = SchedulerState{role: "leading no more" + errorSuffix(e)}
	case "journal read":
		s.role, s.master = "leading", awaitsMaster
	case "no leading master in ZooKeeper":
		if !strings.HasPrefix(s.master, awaitsMaster) {
			return false // a standby, or a leader connected to a master
		}
		s.master = awaitsMaster + errorSuffix(e)
	case "no subscription to a master":
		s.master = awaitsMaster + errorSuffix(e)
	case "subscribed":
		s.master = fmt.Sprint("subscribed to ", e.Data["master"])
	default:
		return false
	}
	return true
}

func (s *SchedulerState) String() string {
	return cmp.Or(joinClauses(s.role, s.zookeeper, s.master), "starting")
}

// AgentState is the DaemonState of the agent daemon.
type AgentState struct{ gpus, offers, volume, cgroups string }

func (t *AgentState) update(e *logrus.Entry) bool {
	switch e.Message {
	case "GPUs discovered":
		*t = AgentState{gpus: fmt.Sprint(e.Data["gpus"], " GPUs")}
	case "GPUs advertised":
		t.offers = fmt.Sprint(e.Data["gpus"], " whole and ", e.Data["shared"], " shared advertised to ", e.Data["agent"])
	case "GPUs not advertised":
		t.offers = fmt.Sprint("not advertised, waiting for the agent ", e.Data["agent"], errorSuffix(e))
	case "GPUs are offered no more until this daemon is started again":
		t.offers = "offered no more until this daemon is started again" + errorSuffix(e)
	case "no driver volume: images that ask for the driver cannot be launched":
		t.volume = "no driver volume" + errorSuffix(e)
	case "driver volume is ready":
		t.volume = ""
	case "containers cannot be confined here":
		t.cgroups = e.Message + errorSuffix(e)
	default:
		return false
	}
	return true
}

func (t *AgentState) String() string {
	return joinClauses(cmp.Or(t.gpus, "looking for GPUs"), t.offers, t.volume, t.cgroups)
}

// errorSuffix returns ": " and the entry's error, or "" if it has none.
func errorSuffix(e *logrus.Entry) string {
	if cause := e.Data[logrus.ErrorKey]; cause != nil {
		return fmt.Sprint(": ", cause)
	}
	return ""
}

func joinClauses(all ...string) string {
	var said []string
	for _, one := range all {
		if one != "" {
			said = append(said, one)
		}
	}
	return strings.Join(said, "; ")
}
