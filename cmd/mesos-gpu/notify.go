package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

// notifier tells the systemd that started this process what its daemon is doing,
// for systemctl status. It learns that from the log, whatever level that has,
// and does nothing where no systemd asked for it.
type notifier struct {
	state condition

	mu    sync.Mutex
	said  string
	ended bool // what is logged while it ends is no state
}

// condition is what is known of a daemon's state.
type condition interface {
	// learn reports whether the entry was about the state.
	learn(e *logrus.Entry) bool
	fmt.Stringer
}

// notifying has the log's lines told.
func (a *app) notifying(log *logrus.Logger, c condition) *notifier {
	n := &notifier{state: c, said: c.String()}
	if a.getenv("NOTIFY_SOCKET") != "" {
		log.SetFormatter(upTo{log.Formatter, log.Level})
		log.SetLevel(max(log.Level, logrus.InfoLevel))
		log.AddHook(n)
		tell(statusLine(n.said))
	}
	return n
}

// run runs the daemon and tells of its end.
func (n *notifier) run(ctx context.Context, serve func(context.Context) error) error {
	defer context.AfterFunc(ctx, n.end)()
	return serve(ctx)
}

func (n *notifier) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	tell(daemon.SdNotifyStopping, statusLine("stopping"))
}

// Levels and Fire make it a logrus.Hook.
func (n *notifier) Levels() []logrus.Level { return logrus.AllLevels }

func (n *notifier) Fire(e *logrus.Entry) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended || !n.state.learn(e) {
		return nil
	}
	if text := n.state.String(); text != n.said {
		n.said = text
		tell(statusLine(text))
	}
	return nil
}

// ready tells that the daemon answers.
func (n *notifier) ready() { tell(daemon.SdNotifyReady) }

// tell sends systemd assignments. That it cannot be told is no reason to end, and
// the log says all of it too.
func tell(assignments ...string) {
	_, _ = daemon.SdNotify(false, strings.Join(assignments, "\n"))
}

// maxStatus bounds what systemctl shows in one line, in bytes.
const maxStatus = 500

// userinfo is a name and password in a URL.
var userinfo = regexp.MustCompile(`//[^/\s"@]*@`)

// statusLine is one line. Unlike the log everybody on the machine may read it.
func statusLine(text string) string {
	text = userinfo.ReplaceAllString(text, "//…@")
	text = strings.NewReplacer("\n", "; ", "\t", " ").Replace(printable(text))
	if len(text) > maxStatus {
		text = text[:maxStatus] + "…"
	}
	return "STATUS=" + strings.ToValidUTF8(text, "")
}

// upTo leaves out the lines of lower levels.
type upTo struct {
	logrus.Formatter
	level logrus.Level
}

func (u upTo) Format(e *logrus.Entry) ([]byte, error) {
	if e.Level > u.level {
		return nil, nil
	}
	return u.Formatter.Format(e)
}

// scheduling is a scheduler's state.
type scheduling struct{ zookeeper, role, master string }

const awaitsMaster = "waiting for a master"

func (s *scheduling) learn(e *logrus.Entry) bool {
	switch e.Message {
	case "no connection to ZooKeeper":
		s.zookeeper = "waiting for ZooKeeper" + why(e)
	case "connected to ZooKeeper":
		s.zookeeper = ""
	case "standing by":
		*s = scheduling{role: "standing by"}
	case "this scheduler stands by: tasks go on":
		*s = scheduling{role: "leading no more" + why(e)}
	case "journal read":
		s.role, s.master = "leading", awaitsMaster
	case "no leading master in ZooKeeper":
		if !strings.HasPrefix(s.master, awaitsMaster) {
			return false // a standby, or one that has a master
		}
		s.master = awaitsMaster + why(e)
	case "no subscription to a master":
		s.master = awaitsMaster + why(e)
	case "subscribed":
		s.master = fmt.Sprint("subscribed to ", e.Data["master"])
	default:
		return false
	}
	return true
}

func (s *scheduling) String() string {
	return cmp.Or(clauses(s.role, s.zookeeper, s.master), "starting")
}

// tending is the state of an agent's daemon.
type tending struct{ gpus, offers, volume, cgroups string }

func (t *tending) learn(e *logrus.Entry) bool {
	switch e.Message {
	case "GPUs discovered":
		*t = tending{gpus: fmt.Sprint(e.Data["gpus"], " GPUs")}
	case "GPUs advertised":
		t.offers = fmt.Sprint(e.Data["gpus"], " whole and ", e.Data["shared"], " shared advertised to ", e.Data["agent"])
	case "GPUs not advertised":
		t.offers = fmt.Sprint("not advertised, waiting for the agent ", e.Data["agent"], why(e))
	case "GPUs are offered no more until this daemon is started again":
		t.offers = "offered no more until this daemon is started again" + why(e)
	case "no driver volume: images that ask for the driver cannot be launched":
		t.volume = "no driver volume" + why(e)
	case "driver volume is ready":
		t.volume = ""
	case "containers cannot be confined here":
		t.cgroups = e.Message + why(e)
	default:
		return false
	}
	return true
}

func (t *tending) String() string {
	return clauses(cmp.Or(t.gpus, "looking for GPUs"), t.offers, t.volume, t.cgroups)
}

// why is the entry's error, behind a colon.
func why(e *logrus.Entry) string {
	if cause := e.Data[logrus.ErrorKey]; cause != nil {
		return fmt.Sprint(": ", cause)
	}
	return ""
}

func clauses(all ...string) string {
	var said []string
	for _, one := range all {
		if one != "" {
			said = append(said, one)
		}
	}
	return strings.Join(said, "; ")
}
