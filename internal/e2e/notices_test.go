package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"mesos-gpu/framework/notification"
)

// noticeReceiver is a receiver of webhooks and an SMTP server.
type noticeReceiver struct {
	t        *testing.T
	webhooks *httptest.Server
	// settings is the file for --notifications.
	settings string
	// secret signs webhooks.
	secret string

	mu sync.Mutex
	// failing receivers answer 503.
	failing bool
	// received are the webhooks that were accepted, mails the messages.
	received []receivedWebhook
	mails    []string
	// changed is closed and replaced when either changes.
	changed chan struct{}
}

// receivedWebhook is a webhook and the number of its attempt.
type receivedWebhook struct {
	ID       string   `json:"id"`
	Event    string   `json:"event"`
	Job      string   `json:"job"`
	Reason   string   `json:"reason"`
	Tasks    []string `json:"task_ids"`
	ExitCode *int     `json:"exit_code"`
	attempt  string
}

func startNoticeReceiver(t *testing.T) *noticeReceiver {
	t.Helper()
	r := &noticeReceiver{t: t, secret: "0123456789abcdef", changed: make(chan struct{})}
	r.webhooks = httptest.NewServer(r)
	t.Cleanup(r.webhooks.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mail := smtp.NewServer(r)
	mail.Domain = "localhost"
	go func() { _ = mail.Serve(l) }() // it ends with Close
	t.Cleanup(func() { _ = mail.Close() })
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(r.secret), 0o600); err != nil {
		t.Fatal(err)
	}
	r.settings = writeJobFile(t, "notifications", fmt.Sprintf("webhooks: {hosts: [%q], secret_file: %s}\nmail: {server: %q, from: "+
		"gpu@example.org, domains: [example.org]}\nretry: {first: 100ms, longest: 1s}\ngpu_idle: {after: 1s}\n",
		strings.TrimPrefix(r.webhooks.URL, "http://"), secret, l.Addr()))
	return r
}

// ServeHTTP implements http.Handler.
func (r *noticeReceiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	one := receivedWebhook{attempt: q.Header.Get(notification.AttemptHeader)}
	signature := q.Header.Get(notification.SignatureHeader)
	var seconds int64
	_, _ = fmt.Sscanf(signature, "t=%d,", &seconds)
	if err := json.Unmarshal(body, &one); err != nil || signature != notification.Sign([][]byte{[]byte(r.secret)}, time.Unix(seconds, 0), body) {
		r.t.Errorf("webhook %s with signature %s: %v", body, signature, err)
	}
	r.mu.Lock()
	failing := r.failing
	r.mu.Unlock()
	if failing {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.add(func() { r.received = append(r.received, one) })
}

// NewSession implements smtp.Backend.
func (r *noticeReceiver) NewSession(*smtp.Conn) (smtp.Session, error) { return noticeSession{r}, nil }

// noticeSession is a connection to the SMTP server.
type noticeSession struct{ r *noticeReceiver }

func (noticeSession) Mail(string, *smtp.MailOptions) error { return nil }
func (noticeSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (noticeSession) Reset()                               {}
func (noticeSession) Logout() error                        { return nil }

func (s noticeSession) Data(from io.Reader) error {
	text, err := io.ReadAll(quotedprintable.NewReader(from))
	s.r.add(func() { s.r.mails = append(s.r.mails, string(text)) })
	return err
}

func (r *noticeReceiver) add(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// setFailing makes the receiver of webhooks fail or accept.
func (r *noticeReceiver) setFailing(failing bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failing = failing
}

// awaitWebhook waits for a webhook about an event of a job.
func (r *noticeReceiver) awaitWebhook(event, name string) (found receivedWebhook) {
	r.t.Helper()
	r.await(fmt.Sprintf("webhook of %s of job %s", event, name), func() bool {
		for _, one := range r.received {
			if one.Event == event && one.Job == name {
				found = one
				return true
			}
		}
		return false
	})
	return found
}

// awaitMail waits for a mail with a text, and returns it.
func (r *noticeReceiver) awaitMail(text string) (found string) {
	r.t.Helper()
	r.await("mail with "+text, func() bool {
		for _, mail := range r.mails {
			if found = mail; strings.Contains(mail, text) {
				return true
			}
		}
		return false
	})
	return found
}

func (r *noticeReceiver) await(what string, arrived func() bool) {
	r.t.Helper()
	deadline := time.After(waitTimeout)
	for {
		r.mu.Lock()
		done, changed := arrived(), r.changed
		received, mails := r.received, r.mails
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			r.t.Fatalf("no %s; received: %+v, mails: %q", what, received, mails)
		}
	}
}

// noticeRoles is a roles file with a quota that checkNotifications uses up.
const noticeRoles = "main: {}\nsmall: {quota: '*=1'}\n"

// checkNotifications makes each event of which targets are notified happen on a cluster with GPUs of one agent: start, failure
// with a mail that has the last lines of standard error, end after a receiver has failed, preemption, idle timeout and quota.
func checkNotifications(t *testing.T, c *cluster, r *noticeReceiver) {
	t.Helper()
	submit := func(role, name, keys string) {
		t.Helper()
		c.mustRun("submit", writeJobFile(t, name, "name: "+name+"\nrole: "+role+"\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\nkill_grace: 1s\n"+keys))
	}
	all := "on: [start, end, failure, preemption, idle, quota]"
	webhook := fmt.Sprintf("{to: %q, %s}", r.webhooks.URL+"/path-secret", all)
	submit("main", "fails", "notify: ["+webhook+", 'mailto:alice@example.org']\ncommand: for n in 1 2 3; do echo problem $n >&2; done; exit 3\n")
	r.awaitWebhook("start", "fails")
	if one := r.awaitWebhook("failure", "fails"); one.ExitCode == nil || *one.ExitCode != 3 || len(one.Tasks) != 1 {
		t.Errorf("failure: %+v", one)
	}
	if mail := r.awaitMail("Job fails@1 has failed."); !strings.Contains(mail, "\r\n  problem 1\r\n  problem 2\r\n  problem 3\r\n") {
		t.Errorf("the mail has not the last lines of standard error:\n%s", mail)
	}

	r.setFailing(true)
	submit("main", "ends", "notify: ["+webhook+"]\ncommand: 'true'\n")
	c.awaitJobEnd("ends")
	c.awaitOutput("it answers 503", "notifications", "-o", "wide")
	r.setFailing(false)
	if one := r.awaitWebhook("end", "ends"); one.attempt == "1" {
		t.Errorf("end: %+v was delivered at the first attempt, to a receiver that failed", one)
	}

	submit("main", "low", "gpus: 1\npreemptible: true\nnotify: ["+webhook+"]\ncommand: exec sleep 1000\n")
	c.mustRun("wait", "--for", "running", "low")
	submit("main", "urgent", "gpus: 4\npriority: 5\ncommand: exec sleep 1000\n")
	if one := r.awaitWebhook("preemption", "low"); len(one.Tasks) != 1 {
		t.Errorf("preemption: %+v", one)
	}
	c.mustRun("kill", "urgent", "low")
	c.awaitJobEnd("urgent")

	submit("main", "idle", "idle_timeout: 1s\nnotify: ["+webhook+"]\ncommand: exec sleep 1000\n")
	r.awaitWebhook("idle", "idle")

	submit("small", "bound", "tasks: 2\ngpus: 1\nnotify: ["+webhook+"]\ncommand: exec sleep 1000\n")
	if one := r.awaitWebhook("quota", "bound"); !strings.Contains(one.Reason, "small") {
		t.Errorf("quota: %+v", one)
	}
	c.mustRun("kill", "bound")
	c.awaitJobEnd("bound")
	c.awaitOutput("Every notification was delivered.", "notifications")
}

// TestNotifications checks notifications on the embedded cluster.
func TestNotifications(t *testing.T) {
	t.Parallel()
	r := startNoticeReceiver(t)
	checkNotifications(t, startCluster(t, "--notifications", r.settings, "--roles", writeJobFile(t, "roles.yaml", noticeRoles)), r)
}

// checkIdleGPUs checks that targets of a job and of its role, which is "main" with idleRoles, are notified once of idle GPUs, also
// if the scheduler is killed.
func checkIdleGPUs(t *testing.T, c *cluster, r *noticeReceiver, restart func() *cluster) {
	t.Helper()
	start := func(name string) {
		t.Helper()
		c.mustRun("run", "--detach", "--name", name, "--role", "main", "--gpus", "1", "--cpus", "0.1", "--mem", "256",
			"--notify", "gpu_idle,"+r.webhooks.URL+"/path-secret", "--", "sleep", "1000")
		c.mustRun("wait", "--for", "running", name)
		c.awaitOutput(" %", "top", name) // a measurement
	}
	start("first")
	one := r.awaitWebhook("gpu_idle", "first")
	if len(one.Tasks) != 1 || one.Reason != "its GPUs had a duty below 5 % for 1s" {
		t.Errorf("idle GPUs: %+v", one)
	}
	r.awaitMail("Job first@1 has idle GPUs.")
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	c = restart()
	c.awaitOutput(" %", "top", "first")
	start("second")
	r.awaitWebhook("gpu_idle", "second")
	r.awaitMail("Job second@1 has idle GPUs.")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.received {
		if other.Event == "gpu_idle" && other.Job == "first" && other.ID != one.ID {
			t.Errorf("notified twice: %+v, %+v", one, other)
		}
	}
}

// idleRoles is a roles file for checkIdleGPUs.
const idleRoles = "main: {notify: [{to: 'mailto:ops@example.org', on: [gpu_idle]}]}\n"

// TestIdleGPUs checks notifications of idle GPUs on the embedded cluster.
func TestIdleGPUs(t *testing.T) {
	t.Parallel()
	r := startNoticeReceiver(t)
	args := []string{
		"local", "--gpus", "4xV100", "--free-ports", "--process-user=", "--work-dir", makeWorkDir(t),
		"--notifications", r.settings, "--roles", writeJobFile(t, "roles.yaml", idleRoles),
	}
	checkIdleGPUs(t, startDaemon(t, binary, args...), r, func() *cluster { return startDaemon(t, binary, args...) })
}
